package import FoundationEssentials
package import Postgres
package import SyncModel

/// Reads an organization's feed in permanent ids.
package struct ChangeReader: Sendable {
    let feed: FeedReader
    let catalog: Catalog
    let failure: StoreFailure

    /// Returns a page of changes, with their documents as they were written.
    ///
    /// - Parameters:
    ///   - since: `next` of the previous page, or a push's `feed`; nil to start at the beginning.
    ///   - limit: 1 to 1,000.
    ///   - entityTypes: the requested entity types; empty for all.
    ///   - channels: the channels to which the page is restricted; nil for all channels that the user sees.
    ///   - others: whether a page that is restricted to channels also includes entities without channels, and entities
    ///     in the user's own channel.
    ///   - wait: the time to wait for a change if the page is empty.
    ///   - room: the reservation of memory for the read rows.
    /// - Throws: `invalid_request` for an invalid cursor, or for a cursor of another filter; `cursor_expired`.
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

/// A reservation of memory for a page.
///
/// The reservation is acquired before rows are read, and released while the reader waits for a change.
package struct PagePermit: Sendable {
    /// The type of the problem if no memory can be reserved.
    ///
    /// (If a type is used only in a `throws`, Swift 6.3 reports its import as unused.)
    package typealias Failure = Problem

    package let acquire: @Sendable () async throws(Failure) -> Void
    package let release: @Sendable () -> Void

    /// - Parameters:
    ///   - acquire: reserves the memory as soon as it is available. Does nothing if the memory is already reserved.
    ///   - release: releases the memory.
    package init(acquire: @escaping @Sendable () async throws(Failure) -> Void, release: @escaping @Sendable () -> Void)
    {
        self.acquire = acquire
        self.release = release
    }

    /// A reservation that is always granted.
    package static let unbounded = PagePermit { () async throws(Problem) in
    } release: {
    }

    /// Reserves memory. Waits without a time limit, until the task is cancelled.
    package func enterPatiently() async throws {
        while true {
            try Task.checkCancellation()
            do { return try await acquire() } catch  where error.code == .overloaded { continue }
        }
    }

    /// Releases the memory for waiting readers, and then reserves it again.
    package func yield() async throws {
        release()
        try await enterPatiently()
    }
}

extension Pool {
    /// Disables sorting, because an index already has the required order.
    package static let orderShape = Statement(
        "order_shape",
        "SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)"
    )

    /// Runs a query with a plan that reads the index in the query's order.
    ///
    /// A plan is made once for a connection. Without this setting, a plan that suits an organization's first mutations
    /// would later read all mutations of the organization.
    func runInOrder(_ query: Query) async throws -> Rows {
        try await readByIndex([Query(Self.orderShape), query])[1]
    }
}
