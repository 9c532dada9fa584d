import Foundation
import JSONText
import Postgres
import SyncModel
import SyncStore

/// Searches a table of an organization for rows that name users without being stored under the users' ids.
///
/// These are parked events that name the owner of a document, and webhook messages. No index has them by user, so all
/// are read once, in the order of their keys, a page at a time and without locks.
struct NamingWalk: Sendable {
    /// Rows that one statement reads.
    static let page: Int64 = 5_000

    /// A row's key behind the organization.
    struct Key: Sendable {
        let first: String
        let second: String
    }

    /// Rows behind a key ($3, $4), in the order of keys, up to $5 of them: those that name the users ($2), and the last.
    let look: Statement
    /// Sorts before all keys.
    private let least: Key

    /// Walks once over all rows there are.
    ///
    /// - Parameter found: called behind each page with the keys of those that name the users, none included.
    func run(
        _ pool: Pool,
        of organization: UUID,
        naming users: [UUID],
        _ found: ([Key]) async throws -> Void
    ) async throws {
        var place = least
        while let page = try await page(pool, of: organization, naming: users, behind: place) {
            try await found(page.named)
            place = page.last
        }
    }

    /// Whether there is one at all.
    func findsAny(_ pool: Pool, of organization: UUID, naming users: [UUID]) async throws -> Bool {
        var place = least
        while let page = try await page(pool, of: organization, naming: users, behind: place) {
            if !page.named.isEmpty { return true }
            place = page.last
        }
        return false
    }

    /// Nil behind the last row.
    private func page(
        _ pool: Pool,
        of organization: UUID,
        naming users: [UUID],
        behind place: Key
    ) async throws -> (named: [Key], last: Key)? {
        let look = Parameters(of: organization, users, place.first, place.second, Self.page)
        let rows = try await pool.runByIndex(Query(self.look, look)).read { row in
            let key = Key(first: try row.string("first"), second: try row.string("second"))
            return (key: key, isNamed: try row.bool("is_named"))
        }
        return rows.last.map { (rows.filter(\.isNamed).map(\.key), $0.key) }
    }

    /// Parked events that name a user as the owner of a document.
    static let parkedEvents = NamingWalk(
        "parked_events",
        "source",
        "event_id",
        "text",
        where: "y.owner_id = ANY ($2::uuid[])",
        least: Key(first: "", second: "")
    )

    /// Messages about a user, about a write of the user, or about an entity that has the user's id.
    static let deliveries = NamingWalk(
        "webhook_deliveries",
        "endpoint_id",
        "id",
        "uuid",
        where: naming("y", "$2"),
        least: Key(first: UUID.least.lowercased, second: UUID.least.lowercased)
    )

    /// Whether a row of `webhook_deliveries` is one of ``deliveries``.
    static func naming(_ row: String, _ users: String) -> String {
        "\(row).data ->> 'user_id' = ANY (\(users)::uuid[]::text[])"
            + " OR \(row).data ->> 'updated_by' = ANY (\(users)::uuid[]::text[])"
            + " OR \(row).data ->> 'server_id' = ANY (\(users)::uuid[]::text[])"
    }

    private init(
        _ table: String,
        _ first: String,
        _ second: String,
        _ type: String,
        where isNamed: String,
        least: Key
    ) {
        self.least = least
        look = Statement(
            "look_for_named_\(table)",
            """
            SELECT p.first::text AS first, p.second::text AS second, p.is_named
            FROM (
                SELECT q.*, row_number() OVER (ORDER BY q.first DESC, q.second DESC) AS place
                FROM (
                    SELECT y.\(first) AS first, y.\(second) AS second, coalesce(\(isNamed), false) AS is_named
                    FROM \(table) y
                    WHERE y.organization_id = $1 AND (y.\(first), y.\(second)) > ($3::text::\(type), $4::text::\(type))
                    ORDER BY y.\(first), y.\(second)
                    LIMIT $5
                ) q
            ) p
            WHERE p.is_named OR p.place = 1
            ORDER BY p.first, p.second
            """
        )
    }
}
