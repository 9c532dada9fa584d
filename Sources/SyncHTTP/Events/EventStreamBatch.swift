import SyncModel
import SyncStore

/// One listener's turn: writes a few pages of events, a hint, or a keep-alive.
struct EventStreamBatch {
    /// Pages of one turn: other listeners wait for theirs.
    private static let pages = 8

    let store: Store
    let authenticator: Authenticator

    /// Does the work; `work` keeps the remaining part.
    ///
    /// - Returns: whether nothing is left.
    /// - Throws: ``AccessRevoked``, `EventSubscriber.BudgetExhausted`, or the store's problems.
    func take(_ work: inout SubscriberState.Work, _ subscriber: EventSubscriber) async throws -> Bool {
        // a suspended organization receives no events; all other reasons to end a stream are checked at intervals
        do throws(Problem) {
            try await authenticator.activeOrganization(subscriber.caller.organization.id)
        } catch {
            if error.code.status == 403 { throw AccessRevoked() }
            throw error
        }
        if work.isFirst {
            if let feed = try await store.events.feedChanges(after: work.cursor, for: subscriber.interest) {
                work.changes.feedMoved(to: feed)
            }
            work.isFirst = false
        }
        var hasMore = work.changes.lane
        for _ in 0..<Self.pages where hasMore {
            guard try await subscriber.takesMore() else { return false }
            let page = try await store.events.page(after: work.cursor, of: subscriber.lane)
            hasMore = page.hasMore
            work.cursor = page.next
            guard !page.events.isEmpty else { continue }
            try subscriber.write(page.events.flatMap { EventFrame.event($0) }, upTo: page.next)
            work.keepsAlive = false
        }
        if hasMore { return false }
        if let feed = work.changes.feed, feed > work.cursor.feed {
            work.cursor.feed = feed
            try subscriber.write(EventFrame.changes(work.cursor, of: subscriber.lane.user), upTo: work.cursor)
            work.keepsAlive = false
        }
        if work.keepsAlive { try subscriber.write(EventFrame.keepAlive) }
        return true
    }
}
