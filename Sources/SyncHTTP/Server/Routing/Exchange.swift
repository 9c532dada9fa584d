import Foundation
import HTTPTypes
import HummingbirdCore
import JSONText
import NIOCore
import SyncModel

/// A request with its context, as endpoints get it.
struct Exchange: Sendable {
    let request: Request
    let requestID: String
    /// The values of the template's `{…}`, in order.
    let parameters: [Substring]
    let channel: any Channel

    /// The room for its answer.
    let hold: AnswerHold
    /// Shared by all requests.
    let budgets: Budgets
    /// The caller's user, once authenticated.
    var user = LaneKey.nobody
    /// The operator's token that it came with, once let in.
    var operatorToken: OperatorToken?
    /// When the operator's session ends, in seconds since 1970; nil where it has no end.
    var operatorUntil: Int64?
    /// Writes the operator's looks at what users wrote.
    var audit: OperatorAudit?
    /// What is noted of the act that the request is.
    var act: ActNote?

    /// Throws when the caller is not served any more; long waits call it now and then.
    var isStillServed: @Sendable () async throws -> Void = {}
    /// How often that is.
    var checkInterval: Duration = .seconds(2)

    var head: HTTPRequest { request.head }
    var headers: HTTPFields { request.headers }

    /// A parameter of the path as a UUID; not found for anything else.
    func uuid(at index: Int) throws(Refusal) -> UUID {
        guard let uuid = UUID(text: parameters[index].utf8) else { throw .notFound }
        return uuid
    }
}
