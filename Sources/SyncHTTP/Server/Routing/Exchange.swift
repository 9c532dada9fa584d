package import Foundation
package import HTTPTypes
package import HummingbirdCore
import JSONText
package import NIOCore
package import SyncModel

/// A request with its context, as endpoints get it.
package struct Exchange: Sendable {
    package let request: Request
    package let requestID: String
    /// The values of the template's `{…}`, in order.
    package let parameters: [Substring]
    package let channel: any Channel

    /// The room for its response.
    package let hold: ResponseMemoryLease
    /// Shared by all requests.
    package let budgets: Budgets
    /// The caller's user, once authenticated.
    package var user = LaneKey.nobody
    /// The operator's token of the request, once authenticated.
    package var operatorToken: OperatorToken?
    /// When the operator's session ends, in seconds since 1970; nil if it has no end.
    package var operatorUntil: Int64?
    /// Records the operator's accesses to user content.
    package var audit: OperatorAudit?
    /// The details recorded of the act that the request is.
    package var act: AuditRecorder?

    /// Throws when the caller is not served any more; long waits call it now and then.
    package var isStillServed: @Sendable () async throws -> Void = {}
    /// How often that is.
    package var checkInterval: Duration = .seconds(2)

    package var head: HTTPRequest { request.head }
    package var headers: HTTPFields { request.headers }

    /// A parameter of the path as a UUID; not found for anything else.
    package func uuid(at index: Int) throws(Refusal) -> UUID {
        guard let uuid = UUID(text: parameters[index].utf8) else { throw .notFound }
        return uuid
    }
}
