package import Foundation
import Postgres
package import SyncModel

/// Shows an organization's feed in permanent ids.
package struct ChangeReader: Sendable {
    let feed: FeedReader
    let catalog: Catalog
    let failure: StoreFailure

    /// A page of changes, with their documents as they were written.
    ///
    /// - Parameters:
    ///   - since: `next` of the page before, or a push's `feed`; nil starts at the beginning.
    ///   - limit: 1 to 1,000.
    ///   - entityTypes: empty for all.
    ///   - channels: the channels to which the page is restricted; nil for all that the user sees.
    ///   - wait: how long to wait for a change, if the page is empty.
    ///   - room: taken for the read rows.
    /// - Throws: `invalid_request` for an invalid cursor or one made with another filter; `cursor_expired`.
    package func page(
        since: String?,
        limit: Int,
        entityTypes: [String],
        channels: [String]? = nil,
        organization: Organization,
        user: UUID,
        wait: Duration = .zero,
        room: PagePermit = .unbounded
    ) async throws(Problem) -> FeedPage {
        let request = FeedRequest(
            organization: organization.id,
            user: user,
            entityTypes: entityTypes,
            channels: channels,
            limit: limit
        )
        let cursor = try request.cursor(since)
        let page = try await feed.view(after: cursor, of: request.interest, wait: wait, room: room) {
            cursor throws(Problem) in
            switch try await feed.read(request, after: cursor).reading {
            case .page(let page): return page
            case .expired: throw Self.expired(entityTypes, channels)
            }
        }
        do {
            return try await catalog.opening(organization.id) { try page.opened($0) }
        } catch {
            throw failure.problem(error, doing: "read changes")
        }
    }

    private static func expired(_ entityTypes: [String], _ channels: [String]?) -> Problem {
        let types = entityTypes.isEmpty ? [] : ["entity_type=" + entityTypes.joined(separator: ",")]
        let names = (channels ?? []).map { name in
            "channel=" + String(decoding: PercentEncoding.encoded(name), as: UTF8.self)
        }
        let query = types + names
        return FeedReader.expired(snapshot: "/v1/changes" + (query.isEmpty ? "" : "?" + query.joined(separator: "&")))
    }
}

/// A count that stops: so many, or more than that.
package struct CappedCount: Sendable, Hashable {
    package let count: Int
    /// Whether there are more than were counted.
    package let isMore: Bool

    package init(count: Int, isMore: Bool = false) {
        self.count = count
        self.isMore = isMore
    }

    /// Of rows that were searched for up to one more than the cap.
    ///
    /// They are in places of which as many were searched.
    package init(_ count: Int64, among looked: Int64, cap: Int64) {
        self.init(count: Int(min(count, cap)), isMore: max(count, looked) > cap)
    }

    /// Of rows that were searched for up to one more than the cap.
    package init(looked count: Int64, cap: Int64) {
        self.init(count: Int(min(count, cap)), isMore: count > cap)
    }
}

/// Memory for a page.
///
/// Taken before rows are read, given back while the reader waits for something to show.
package struct PagePermit: Sendable {
    /// Why there is no room.
    ///
    /// (Swift 6.3 takes an import for unused if its only type is in a `throws`.)
    package typealias Failure = Problem

    package let acquire: @Sendable () async throws(Failure) -> Void
    package let release: @Sendable () -> Void

    /// - Parameters:
    ///   - acquire: takes room, once there is some; does nothing where it is taken already.
    ///   - release: gives it back.
    package init(acquire: @escaping @Sendable () async throws(Failure) -> Void, release: @escaping @Sendable () -> Void)
    {
        self.acquire = acquire
        self.release = release
    }

    /// Without a limit.
    package static let unbounded = PagePermit { () async throws(Problem) in
    } release: {
    }

    /// Takes room, however long others hold it, unless the task is cancelled.
    package func enterPatiently() async throws {
        while true {
            try Task.checkCancellation()
            do { return try await acquire() } catch  where error.code == .overloaded { continue }
        }
    }

    /// Lets others that wait have their turn.
    package func yield() async throws {
        release()
        try await enterPatiently()
    }
}

extension Pool {
    /// Nothing is sorted: there is an index in the order.
    static let orderShape = Statement(
        "order_shape",
        "SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)"
    )

    /// Runs a query whose plan follows the index of its order.
    ///
    /// Plans are made once for a connection, and a plan that suits an organization's first mutations would read all of
    /// them later.
    func runInOrder(_ query: Query) async throws -> Rows {
        try await readByIndex([Query(Self.orderShape), query])[1]
    }
}
