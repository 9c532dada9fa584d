import HTTPTypes
import HummingbirdCore
import SyncModel
import SyncStore

/// `GET /v1/events`: the changes of the caller's mutations and ids, as server-sent events.
struct EventsEndpoint: Sendable {
    let store: Store
    let hub: EventHub

    /// Refuses invalid requests, and passes valid requests to the hub.
    func listen(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let lane = LaneKey(organization: caller.organization.id, user: caller.user)
        let cursor = try await store.events.start(after: lastEventID(exchange), of: lane)
        guard hub.hasRoom(for: caller.organization.id) else { throw hub.overload.problem() }
        var answer = Answer(.ok)
        answer.contentType = "text/event-stream"
        answer.headers[.cacheControl] = "no-store"
        // nginx would otherwise delay events until a buffer is full
        answer.headers[.xAccelBuffering] = "no"
        // a stream has no length, so the response to a HEAD has no Content-Length; this response ends when the
        // connection is closed
        if exchange.request.method == .head {
            answer.successor = { socket in try await socket.close() }
        } else {
            answer.successor = { [hub] socket in try await hub.adopt(socket, caller, from: cursor) }
        }
        return answer
    }

    /// Returns the last event's id. A browser that has received no event sends an empty id, for which the result is
    /// nil.
    private func lastEventID(_ exchange: Exchange) -> String? {
        exchange.headers[.lastEventID].flatMap { $0.isEmpty ? nil : $0 }
    }
}
