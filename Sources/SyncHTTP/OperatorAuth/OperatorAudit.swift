package import Foundation
import HTTPTypes
import JSONText
package import SyncModel
package import SyncStore

/// Records the act, or the access, of one request of an operator.
package struct OperatorAudit: Sendable {
    package let log: AuditLog
    package let token: OperatorToken
    /// `Sluice-Reason`, decoded.
    package let reason: String?
    package let requestID: String

    /// - Throws: `invalid_request` for an invalid reason.
    package init(_ exchange: Exchange, by token: OperatorToken, in log: AuditLog) throws(Problem) {
        self.log = log
        self.token = token
        requestID = exchange.requestID
        reason = try Self.reason(exchange.headers)
    }

    /// Runs an act between its row and its outcome.
    ///
    /// - Parameters:
    ///   - action: its `operationId`.
    ///   - names: of the path's parameters, in order.
    ///   - target: read from the request's query.
    package func recording(
        _ action: String,
        _ names: [String],
        _ target: AuditTarget?,
        _ exchange: Exchange,
        _ endpoint: Route.Endpoint
    ) async throws -> Answer {
        let note = AuditRecorder()
        var exchange = exchange
        exchange.act = note
        let mark = try await log.begin(act(action, names, exchange.parameters, target))
        do {
            let answer = try await endpoint(exchange)
            await log.end(mark, note.outcome(status: answer.status.code, code: nil))
            return answer
        } catch {
            let problem = Refusal(of: error).problem
            await log.end(mark, note.outcome(status: problem.code.status, code: problem.code.rawValue))
            throw error
        }
    }

    /// Records an access to user content, before the response.
    ///
    /// - Parameter target: names of kinds, and which ones; users apart.
    /// - Throws: if it cannot be recorded: then the content must not be returned.
    package func recordingRead(
        _ action: String,
        of organization: UUID,
        user: UUID? = nil,
        _ target: KeyValuePairs<String, String> = [:]
    ) async throws(Problem) {
        var act = AuditAct(of: organization, by: token.name, scope: token.scope, action, reason: reason)
        act.requestID = requestID
        act.user = user
        act.target = target.map { ($0.key, $0.value) }
        try await log.record(act, AuditOutcome())
    }

    private func act(_ action: String, _ names: [String], _ values: [Substring], _ target: AuditTarget?) -> AuditAct {
        var named = zip(names, values).map { (name: $0, value: String($1)) }
        // the id after /admin/organizations/
        let organization = named.first { $0.name == "id" }.flatMap { UUID(parsing: $0.value) }
        named.removeAll { $0.name == "id" && organization != nil }
        let user = named.first { $0.name == "user" }.flatMap { UUID(parsing: $0.value) }
        named.removeAll { $0.name == "user" && user != nil }
        var act = AuditAct(of: organization, by: token.name, scope: token.scope, action, reason: reason)
        act.requestID = requestID
        act.user = user ?? target?.user
        act.target = named + (target?.names ?? [])
        return act
    }

    private static func reason(_ headers: HTTPFields) throws(Problem) -> String? {
        guard let field = headers[.sluiceReason], !field.isEmpty else { return nil }
        // text other than ASCII must be percent-encoded: the encoding of other bytes is unknown
        guard field.utf8.allSatisfy({ (0x20..<0x7f).contains($0) }),
            let reason = URLQuery.decode(field.utf8).flatMap(AuditReason.reading)
        else {
            let detail = """
                Sluice-Reason must be 1 to \(AuditReason.maximumBytes) bytes of percent-encoded UTF-8 text without control \
                characters
                """
            throw Problem(.invalidRequest, pointer: "", rule: "header_invalid", detail)
        }
        return reason
    }
}
