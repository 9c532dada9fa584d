import HTTPTypes
import SyncHTTP
import SyncModel

/// `GET /admin/organizations/{id}/users/{user}/export`.
struct UserExportEndpoint: Sendable {
    static let mediaType = "application/x-ndjson"

    let exports: UserExport

    /// Responds with 200 and a line for each row of the user's, written while they are read.
    func export(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let user = LaneKey(organization: try exchange.uuid(at: 0), user: try exchange.uuid(at: 1))
        guard try await exports.isKnown(user) else { throw Refusal.notFound }
        try exchange.hold.assign(to: user)
        let room = exchange.hold.room()
        var answer = Answer(.ok)
        answer.contentType = Self.mediaType
        answer.headers[.cacheControl] = "no-store"
        answer.stream = { [exports] write in try await exports.run(user, room: room, write) }
        return answer
    }
}
