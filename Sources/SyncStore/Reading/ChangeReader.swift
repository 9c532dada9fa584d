package import Foundation
import JSONText
import Postgres
package import SyncModel

/// Shows an organization's feed in permanent ids.
package struct ChangeReader: Sendable {
    let feed: FeedReader
    let catalog: Catalog
    let failure: StoreFailure

    /// A page of changes: `{"changes":[…],"next","up_to_date"}`.
    ///
    /// - Parameters:
    ///   - since: `next` of the page before, or a push's `feed`; nil starts at the beginning.
    ///   - limit: 1 to 1,000.
    ///   - entityTypes: empty for all.
    ///   - wait: how long to wait for something to show, while there is nothing.
    ///   - room: taken for what is read.
    /// - Throws: `invalid_request` for a cursor that is not ours or was made with another filter; `cursor_expired`.
    package func page(
        since: String?,
        limit: Int,
        entityTypes: [String],
        organization: Organization,
        user: UUID,
        wait: Duration = .zero,
        room: PageRoom = .unbounded
    ) async throws(Problem) -> [UInt8] {
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
            return try await catalog.opening(organization.id) { try Self.json(page, $0) }
        } catch {
            throw failure.problem(error, doing: "read changes")
        }
    }

    private static func expired(_ entityTypes: [String]) -> Problem {
        let query = entityTypes.isEmpty ? "" : "?entity_type=" + entityTypes.joined(separator: ",")
        return FeedReader.expired(snapshot: "/v1/changes" + query)
    }

    private static func json(_ page: FeedPage, _ seal: Seal) throws -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("changes")
        writer.beginArray()
        for change in page.changes {
            change.write(document: try change.document(seal), localID: nil, to: &writer)
        }
        writer.endArray()
        writer.member("next", page.next.text)
        writer.member("up_to_date", page.isUpToDate)
        writer.endObject()
        return writer.bytes
    }
}
