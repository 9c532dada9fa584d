package import FoundationEssentials
import JSONText
package import Postgres
import SyncModel

/// Searches a table of an organization for rows that name users, but are not stored under the users' ids.
///
/// Examples are webhook messages, and parked events that name the owner of a document. Because no index finds such rows
/// by user, the scan reads all rows once in key order, a page at a time and without locks.
package struct NamingScan: Sendable {
    /// The maximum number of rows that one statement reads.
    static let page: Int64 = 5_000

    /// A row's key without the organization.
    package struct Key: Sendable {
        package let first: String
        package let second: String

        package init(first: String, second: String) {
            self.first = first
            self.second = second
        }
    }

    /// Reads up to `limit` rows after a key, in key order. The statement returns the rows that name the users, and the
    /// last row.
    package let find: Statement
    /// A key that sorts before all keys.
    private let least: Key

    /// Reads all present rows once.
    ///
    /// - Parameter found: receives, for each page, the keys of the rows that name the users; the list may be empty.
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

    /// Returns whether any row names one of the users.
    package func findsAny(_ pool: Pool, of organization: UUID, naming users: [UUID]) async throws -> Bool {
        var place = least
        while let page = try await page(pool, of: organization, naming: users, behind: place) {
            if !page.named.isEmpty { return true }
            place = page.last
        }
        return false
    }

    /// Returns the page; nil after the last row.
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
    ///   - first: the first column of the key after the organization.
    ///   - type: the type of both columns of the key.
    ///   - isNamed: SQL for whether a row `y` names one of the users (`:users`).
    ///   - least: a key that precedes all keys.
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
