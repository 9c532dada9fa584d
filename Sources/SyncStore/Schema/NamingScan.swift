package import Foundation
import JSONText
package import Postgres
import SyncModel

/// Searches a table of an organization for rows that name users without being stored under the users' ids.
///
/// These are parked events that name the owner of a document, and webhook messages. No index has them by user, so all
/// are read once, in the order of their keys, a page at a time and without locks.
package struct NamingScan: Sendable {
    /// Rows that one statement reads.
    static let page: Int64 = 5_000

    /// A row's key behind the organization.
    package struct Key: Sendable {
        package let first: String
        package let second: String

        package init(first: String, second: String) {
            self.first = first
            self.second = second
        }
    }

    /// Up to `limit` rows behind a key, in the order of keys: those that name the users, and the last.
    package let find: Statement
    /// Sorts before all keys.
    private let least: Key

    /// Walks once over all rows there are.
    ///
    /// - Parameter found: called behind each page with the keys of those that name the users, none included.
    package func run(
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
    package func findsAny(_ pool: Pool, of organization: UUID, naming users: [UUID]) async throws -> Bool {
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
        let query = find(
            organization: organization,
            users: users,
            after_first: place.first,
            after_second: place.second,
            limit: Self.page
        )
        let rows = try await pool.runByIndex(query).read { row in
            let key = Key(first: try row.read("first"), second: try row.read("second"))
            return (key: key, isNamed: try row.read("is_named", as: Bool.self))
        }
        return rows.last.map { (rows.filter(\.isNamed).map(\.key), $0.key) }
    }

    /// Parked events that name a user as the owner of a document.
    package static let parkedEvents = NamingScan(
        "parked_events",
        "source",
        "event_id",
        "text",
        where: "y.owner_id = ANY (:users::uuid[])",
        least: Key(first: "", second: "")
    )

    /// - Parameters:
    ///   - first: the first column of the key behind the organization.
    ///   - type: the type of both of these columns.
    ///   - isNamed: whether a row `y` names one of the users (`:users`).
    ///   - least: sorts before all keys.
    package init(
        _ table: String,
        _ first: String,
        _ second: String,
        _ type: String,
        where isNamed: String,
        least: Key
    ) {
        self.least = least
        find = Statement(
            "look_for_named_\(table)",
            ["organization", "users", "after_first", "after_second", "limit"],
            """
            SELECT p.first::text AS first, p.second::text AS second, p.is_named
            FROM (
                SELECT q.*, row_number() OVER (ORDER BY q.first DESC, q.second DESC) AS place
                FROM (
                    SELECT y.\(first) AS first, y.\(second) AS second, coalesce(\(isNamed), false) AS is_named
                    FROM \(table) y
                    WHERE y.organization_id = :organization AND (y.\(first), y.\(second)) > (:after_first::text::\(type), :after_second::text::\(type))
                    ORDER BY y.\(first), y.\(second)
                    LIMIT :limit
                ) q
            ) p
            WHERE p.is_named OR p.place = 1
            ORDER BY p.first, p.second
            """
        )
    }
}
