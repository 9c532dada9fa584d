import Foundation
import HTTPTypes
import HummingbirdCore
import JSONText
import NIOCore
import SyncModel

/// A request on its way through the endpoints, and what belongs to it.
struct Exchange: Sendable {
    let request: Request
    let requestID: String
    /// What stands at the `{…}` of the route's template, in order.
    let parameters: [Substring]
    /// The connection that the request came over.
    let channel: any Channel

    /// What its answer takes.
    let hold: AnswerHold
    /// What all requests share.
    let budgets: Budgets
    /// Whose the request is, once that is settled.
    var user = LaneKey.nobody

    /// Asks whether the caller is served still, and throws why not; who waits long asks now and then.
    var isStillServed: @Sendable () async throws -> Void = {}
    /// How often that is.
    var checkInterval: Duration = .seconds(5)

    var headers: HTTPFields { request.headers }

    /// A parameter of the path that is a UUID; anything else there names nothing.
    func uuid(at index: Int) throws(Refusal) -> UUID {
        guard let uuid = UUID(text: parameters[index].utf8) else { throw .notFound }
        return uuid
    }
}
