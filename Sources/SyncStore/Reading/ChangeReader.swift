package import Foundation
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
    ///   - wait: how long to wait for a change, if the page is empty.
    ///   - room: taken for the read rows.
    /// - Throws: `invalid_request` for an invalid cursor or one made with another filter; `cursor_expired`.
    package func page(
        since: String?,
        limit: Int,
        entityTypes: [String],
        organization: Organization,
        user: UUID,
        wait: Duration = .zero,
        room: PagePermit = .unbounded
    ) async throws(Problem) -> FeedPage {
        let request = FeedRequest(organization: organization.id, user: user, entityTypes: entityTypes, limit: limit)
        let cursor = try request.cursor(since)
        let page = try await feed.view(after: cursor, of: request.interest, wait: wait, room: room) {
            cursor throws(Problem) in
            switch try await feed.read(request, after: cursor).reading {
            case .page(let page): return page
            case .expired: throw Self.expired(entityTypes)
            }
        }
        do {
            return try await catalog.opening(organization.id) { try page.opened($0) }
        } catch {
            throw failure.problem(error, doing: "read changes")
        }
    }

    private static func expired(_ entityTypes: [String]) -> Problem {
        let query = entityTypes.isEmpty ? "" : "?entity_type=" + entityTypes.joined(separator: ",")
        return FeedReader.expired(snapshot: "/v1/changes" + query)
    }
}
