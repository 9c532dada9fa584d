package import Foundation
package import Postgres
import Synchronization

/// A cluster of PostgreSQL servers that shards by organization, as Citus makes it of them, as far as a store knows of it:
/// each connection asks when it opens, for a database may be moved to a cluster, or come later than the gateway.
package final class Cluster: Sendable {
    private let seen = Atomic(false)
    private let translations = Translations()
    /// Its servers.
    package let servers = ClusterServers()

    package init() {}

    /// Whether the last connection that was opened found one.
    package var isThere: Bool { seen.load(ordering: .relaxed) }

    /// How statements are put to it.
    package var dialect: Dialect {
        Dialect(
            question: Self.question,
            identity: ClusterServers.identity,
            settings: Self.settings,
            translation: { [translations, servers] query throws(PostgresError) in
                try servers.requireMembership(for: query.statement)
                try servers.requireAll(for: query.statement)
                return translations.of(query)
            },
            vigil: Self.vigil,
            onAnswer: { [weak self] in self?.seen.store($0, ordering: .relaxed) }
        )
    }

    /// Whether the tables are distributed: then each has a trigger of the extension's. The extension alone says nothing.
    static let question = Statement(
        "cluster_is_there",
        """
        SELECT EXISTS (
            SELECT FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
            WHERE t.tgrelid = to_regclass('organizations') AND p.proname = 'citus_truncate_trigger')
        """
    )

    /// A plan for any organization cannot know the server: it is made for each. To a server that hangs its neighbours would
    /// connect for 30 seconds, in which no statement of theirs can be cancelled.
    static let settings = [("plan_cache_mode", "auto"), ("citus.node_connection_timeout", "2s")]

    /// A transaction that waits where rows are moved, or a shard is split, goes on in another place than it began, where its
    /// first statement does not see yet what was copied there: it changed no row, and said nothing. So one begins anew if any
    /// shard has found another place meanwhile, which places' numbers tell, since each gets the next.
    static let vigil = Dialect.Vigil(
        note: Statement("cluster_note_places", "SELECT set_config('sluice.places', \(places), true)"),
        check: Statement(
            "cluster_same_places",
            "SELECT 1 / (coalesce(current_setting('sluice.places', true), '') IN ('', \(places)))::int AS is_same"
        )
    )

    private static let places = "coalesce((SELECT max(p.placementid) FROM pg_dist_placement p), 0)::text"

    /// The text of a statement there.
    package static func text(of statement: Statement) -> String { ClusterText(statement).ofRows }

    /// Rows of several organizations, as statements outside groups take them: all by one statement or, on a cluster, where
    /// each organization may be on another server, those of an organization.
    package func parts<Row>(_ rows: [Row], by organization: (Row) -> UUID) -> [[Row]] {
        guard isThere else { return rows.isEmpty ? [] : [rows] }
        var places: [UUID: Int] = [:]
        var parts: [[Row]] = []
        for row in rows {
            if let place = places[organization(row)] {
                parts[place].append(row)
            } else {
                places[organization(row)] = parts.count
                parts.append([row])
            }
        }
        return parts
    }
}
