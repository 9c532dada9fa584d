package import Foundation
import Postgres
package import SyncModel
import SyncStore

/// Lists the lanes in which nothing runs, over all organizations or in one.
///
/// Halted lanes are ordered by organization and user, waiting lanes by the time at which they continue.
package struct StoppedLanes: Sendable {
    /// Until when nothing runs.
    package enum State: String, Sendable, CaseIterable {
        /// Until a person settles a mutation.
        case halted
        /// Until a moment: the next try of what failed, or the end of an organization's pause.
        case waiting
    }

    package struct Lane: Sendable {
        package let key: LaneKey
        package let haltedBy: UUID?
        /// When a gateway may take it; nil if nothing is to run.
        package let readyAt: Timestamp?
        /// Mutations that run once they may.
        package let queuedCount: Int32
        /// When the first of them was accepted.
        package let queuedSince: Timestamp?
    }

    package struct Page: Sendable {
        package let lanes: [Lane]
        package let next: String?
    }

    let pool: Pool
    let now: TimeSource
    let failure: StoreFailure

    /// - Parameters:
    ///   - organization: only this one's; nil for all.
    ///   - limit: 1 to 1,000.
    ///   - cursor: `next` of the page before.
    /// - Throws: `invalid_request` for an invalid cursor, or one made with another filter.
    package func page(
        _ state: State,
        organization: UUID?,
        limit: Int,
        cursor: String?
    ) async throws(Problem) -> Page {
        let start = try StoppedLaneCursor(cursor, state, organization, now: now())
        let parameters = Parameters(start.place.organization, start.place.user, start.place.at, Int64(limit + 1))
        let query = Query(Self.statement(state, isOfOne: organization != nil), parameters)
        do {
            let rows = try await pool.readByIndex(query)
            let found = try rows.read(Lane.init)
            let page = Array(found.prefix(limit))
            return Page(lanes: page, next: found.count > limit ? page.last.map(start.next) : nil)
        } catch {
            throw failure.problem(error, doing: "list lanes")
        }
    }

    // MARK: - Statements

    /// Behind a place: organization, user and, of those that wait, moment.
    private static func statement(_ name: String, _ rows: String, by order: String) -> Statement {
        Statement(
            name,
            ["organization", "user", "at", "limit"],
            """
            SELECT l.organization_id, l.user_id, l.halted_by, l.ready_at, l.queued_count, l.queued_since
            FROM lanes l
            WHERE \(rows)
            ORDER BY \(order)
            LIMIT :limit
            """
        )
    }

    static let halted = statement(
        "lanes_halted",
        "l.organization_id = :organization AND l.halted_by IS NOT NULL AND l.user_id > :user"
            + " AND :at::timestamptz IS NOT NULL",
        by: "l.user_id"
    )
    static let haltedOfAll = statement(
        "lanes_halted_of_all",
        "l.halted_by IS NOT NULL AND (l.organization_id, l.user_id) > (:organization, :user)"
            + " AND :at::timestamptz IS NOT NULL",
        by: "l.organization_id, l.user_id"
    )
    static let waiting = statement(
        "lanes_waiting",
        """
        l.organization_id = :organization AND l.lease_owner IS NULL AND l.ready_at >= :at AND (l.ready_at, l.user_id) > (:at, :user)
        """,
        by: "l.ready_at, l.user_id"
    )
    static let waitingOfAll = statement(
        "lanes_waiting_of_all",
        """
        l.lease_owner IS NULL AND l.ready_at >= :at AND (l.ready_at, l.organization_id, l.user_id) > (:at, :organization, :user)
        """,
        by: "l.ready_at, l.organization_id, l.user_id"
    )

    static let statements = [halted, haltedOfAll, waiting, waitingOfAll]

    private static func statement(_ state: State, isOfOne: Bool) -> Statement {
        switch (state, isOfOne) {
        case (.halted, true): halted
        case (.halted, false): haltedOfAll
        case (.waiting, true): waiting
        case (.waiting, false): waitingOfAll
        }
    }
}

extension StoppedLanes.Lane {
    fileprivate init(_ row: inout RowReader) throws {
        self.init(
            key: try row.lane(),
            haltedBy: try row.optionalUUID("halted_by"),
            readyAt: try row.optionalMoment("ready_at"),
            queuedCount: try row.int32("queued_count"),
            queuedSince: try row.optionalMoment("queued_since")
        )
    }
}
