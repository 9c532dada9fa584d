package import FoundationEssentials
package import Postgres
package import SyncModel

/// Shows an organization's feed in permanent ids.
package struct ChangeReader: Sendable {
    let feed: FeedReader
    let catalog: Catalog
    let failure: StoreFailure

    /// Returns a page of changes, with their documents as they were written.
    ///
    /// - Parameters:
    ///   - since: `next` of the page before, or a push's `feed`; nil to start at the beginning.
    ///   - limit: 1 to 1,000.
    ///   - entityTypes: empty for all.
    ///   - channels: the channels to which the page is restricted; nil for all that the user sees.
    ///   - others: whether such a page includes the entities outside channels, and those of the user's own channel.
    ///   - wait: how long to wait for a change, if the page is empty.
    ///   - room: memory to acquire for the read rows.
    /// - Throws: `invalid_request` for an invalid cursor or one made with another filter; `cursor_expired`.
    package func page(
        since: String?,
        limit: Int,
        entityTypes: [String],
        channels: [String]? = nil,
        others: Bool = false,
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
            includesOthers: others && channels != nil,
            limit: limit
        )
        let cursor = try request.cursor(since)
        let page = try await feed.view(after: cursor, of: request.interest, wait: wait, room: room) {
            cursor throws(Problem) in
            switch try await feed.read(request, after: cursor).reading {
            case .page(let page): return page
            case .expired: throw Self.expired(request)
            }
        }
        do {
            return try await catalog.opening(organization.id) { try page.opened($0) }
        } catch {
            throw failure.problem(error, doing: "read changes")
        }
    }

    private static func expired(_ request: FeedRequest) -> Problem {
        let types = request.entityTypes
        var query = types.isEmpty ? [] : ["entity_type=" + types.joined(separator: ",")]
        query += (request.channels ?? []).map { name in
            "channel=" + String(decoding: PercentEncoding.encoded(name), as: UTF8.self)
        }
        if request.includesOthers { query.append("others=true") }
        return FeedReader.expired(snapshot: "/v1/changes" + (query.isEmpty ? "" : "?" + query.joined(separator: "&")))
    }
}

/// A count that stops at a cap, and reports whether there are more.
package struct CappedCount: Sendable, Hashable {
    package let count: Int
    /// Whether there are more items than were counted.
    package let isMore: Bool

    package init(count: Int, isMore: Bool = false) {
        self.count = count
        self.isMore = isMore
    }

    /// Of rows that were searched for up to one more than the cap.
    ///
    /// The search covers the rows' places, and also stops at one more place than the cap.
    package init(_ count: Int64, among looked: Int64, cap: Int64) {
        self.init(count: Int(min(count, cap)), isMore: max(count, looked) > cap)
    }

    /// Of rows that were searched for up to one more than the cap.
    package init(looked count: Int64, cap: Int64) {
        self.init(count: Int(min(count, cap)), isMore: count > cap)
    }
}

/// A reservation of memory for a page.
///
/// It is acquired before rows are read, and released while the reader waits for something to show.
package struct PagePermit: Sendable {
    /// The problem if no memory can be reserved.
    ///
    /// (Swift 6.3 takes an import for unused if its only type is in a `throws`.)
    package typealias Failure = Problem

    package let acquire: @Sendable () async throws(Failure) -> Void
    package let release: @Sendable () -> Void

    /// - Parameters:
    ///   - acquire: reserves the memory as soon as it is available; does nothing if it is reserved already.
    ///   - release: releases the memory.
    package init(acquire: @escaping @Sendable () async throws(Failure) -> Void, release: @escaping @Sendable () -> Void)
    {
        self.acquire = acquire
        self.release = release
    }

    /// A reservation without a limit.
    package static let unbounded = PagePermit { () async throws(Problem) in
    } release: {
    }

    /// Reserves memory, however long other readers hold theirs, unless the task is cancelled.
    package func enterPatiently() async throws {
        while true {
            try Task.checkCancellation()
            do { return try await acquire() } catch  where error.code == .overloaded { continue }
        }
    }

    /// Releases the memory for waiting readers, and reserves it again.
    package func yield() async throws {
        release()
        try await enterPatiently()
    }
}

extension Pool {
    /// Disables sorting, because an index has the required order.
    package static let orderShape = Statement(
        "order_shape",
        "SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)"
    )

    /// Runs a query whose plan follows the index of its order.
    ///
    /// A plan is made once for a connection. A plan that suits an organization's first mutations would later read all
    /// of its mutations.
    func runInOrder(_ query: Query) async throws -> Rows {
        try await readByIndex([Query(Self.orderShape), query])[1]
    }
}
