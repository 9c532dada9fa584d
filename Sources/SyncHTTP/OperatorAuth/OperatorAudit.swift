package import FoundationEssentials
package import HTTPTypes
package import JSONText
package import SyncModel
package import SyncStore
import Synchronization

/// Records an operator's request in the audit log: an action, or an access to user content.
package struct OperatorAudit: Sendable {
    package let log: AuditLog
    package let token: OperatorToken
    /// The decoded `Sluice-Reason`.
    package let reason: String?
    package let requestID: String

    /// - Throws: `invalid_request` for an invalid reason.
    package init(_ exchange: Exchange, by token: OperatorToken, in log: AuditLog) throws(Problem) {
        self.log = log
        self.token = token
        requestID = exchange.requestID
        reason = try Self.reason(exchange.headers)
    }

    /// Runs an action. The row in the audit log is written before the action. The outcome is added to the row after the
    /// action.
    ///
    /// - Parameters:
    ///   - action: the `operationId` of the action.
    ///   - names: the names of the path's parameters, in order.
    ///   - target: the target that the request's query specifies, if any.
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
    /// - Parameter target: the objects whose content is accessed, as pairs of a kind and an id, without the user.
    /// - Throws: an error if the access cannot be recorded. In this case the content must not be returned.
    package func recordingRead(
        _ action: String,
        of organization: UUID,
        user: UUID? = nil,
        _ target: KeyValuePairs<String, String> = [:]
    ) async throws(Problem) {
        var act = AuditedAction(of: organization, by: token.name, scope: token.scope, action, reason: reason)
        act.requestID = requestID
        act.user = user
        act.target = target.map { ($0.key, $0.value) }
        try await log.record(act, AuditOutcome())
    }

    private func act(
        _ action: String,
        _ names: [String],
        _ values: [Substring],
        _ target: AuditTarget?
    ) -> AuditedAction {
        var named = zip(names, values).map { (name: $0, value: String($1)) }
        // the id after /admin/organizations/
        let organization = named.first { $0.name == "id" }.flatMap { UUID(parsing: $0.value) }
        named.removeAll { $0.name == "id" && organization != nil }
        let user = named.first { $0.name == "user" }.flatMap { UUID(parsing: $0.value) }
        named.removeAll { $0.name == "user" && user != nil }
        var act = AuditedAction(of: organization, by: token.name, scope: token.scope, action, reason: reason)
        act.requestID = requestID
        act.user = user ?? target?.user
        act.target = named + (target?.names ?? [])
        return act
    }

    private static func reason(_ headers: HTTPFields) throws(Problem) -> String? {
        guard let field = headers[.sluiceReason], !field.isEmpty else { return nil }
        // text other than ASCII must be percent-encoded, because the encoding of other bytes is unknown
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

// MARK: - AuditRecorder

/// Collects, for the audit log, the details that an endpoint reports about the operator's action.
package final class AuditRecorder: Sendable {
    /// The maximum number of a body's members whose names are recorded.
    private static let namedMembers = 32
    /// The maximum number of ids that are recorded.
    private static let namedIDs = 20

    private let outcome = Mutex(AuditOutcome())
    private let isDryRun = Atomic(false)

    /// Whether the action may have changed something; false only for a dry run.
    package var mayHaveChanged: Bool { !isDryRun.load(ordering: .relaxed) }

    /// Records that the action changes nothing.
    package func markDryRun() { isDryRun.store(true, ordering: .relaxed) }

    package func record(_ name: StaticString, _ value: some JSONWritable & Sendable) {
        outcome.withLock { $0.record(name, value) }
    }

    /// Records a value that is given as JSON, such as ids and filters. The value must not contain user content.
    package func record(_ name: StaticString, raw value: [UInt8]) {
        outcome.withLock { $0.record(name, raw: value) }
    }

    /// Records the user whom the action concerns and, for a join, the target user.
    package func record(user: UUID? = nil, into: UUID? = nil) {
        outcome.withLock { outcome in
            outcome.user = user ?? outcome.user
            outcome.into = into ?? outcome.into
        }
    }

    /// Records the reason. A reason of more than ``AuditReason/maximumBytes`` bytes is recorded as a detail of the
    /// outcome, not as the action's reason.
    package func record(reason: String) {
        guard reason.utf8.count <= AuditReason.maximumBytes else { return record("reason", reason) }
        outcome.withLock { $0.reason = reason }
    }

    /// Records the names of a body's members, without their values.
    package func record(membersOf body: [UInt8]) {
        guard let members = (try? JSONTree(parsing: body))?.root.members else { return }
        record("members", raw: Self.list(members.prefix(Self.namedMembers).map { String($0.0.string.prefix(64)) }))
    }

    /// Records the first of some ids, and their number.
    package func record(ids: [UUID]) {
        record("ids", raw: Self.list(ids.prefix(Self.namedIDs).map(\.lowercased)))
        record("id_count", ids.count)
    }

    package func record(_ name: StaticString, texts: [String]) { record(name, raw: Self.list(texts)) }

    private static func list(_ texts: [String]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginArray()
        for text in texts { writer.string(text) }
        writer.endArray()
        return writer.bytes
    }

    /// Returns the status of the response, followed by the recorded details.
    package func outcome(status: Int, code: String?) -> AuditOutcome {
        outcome.withLock { noted in
            var whole = AuditOutcome()
            whole.record("status", status)
            if let code { whole.record("code", code) }
            whole.add(noted)
            return whole
        }
    }
}

/// The part of an action's target that the request's query specifies. The path is always recorded.
package struct AuditTarget: Sendable {
    /// Reads the target before the action, for the audit log's row. Throws an error if the query is invalid; the
    /// endpoint then refuses the request.
    package typealias Reading = @Sendable (Exchange) throws -> AuditTarget

    /// The user. It is separate from ``names``, so that an erasure can search for the user.
    package var user: UUID?
    package var names: [(name: String, value: String)] = []

    package init(user: UUID? = nil, names: [(name: String, value: String)] = []) {
        self.user = user
        self.names = names
    }
}

// MARK: - RequestOrigin

/// The origin of a request, as the browser reports it.
///
/// A browser also sends the cookie with requests that other pages cause. The browser itself sets `Sec-Fetch-Site` and
/// `Origin`, and no page can change these fields.
package struct RequestOrigin {
    package let method: HTTPRequest.Method
    /// `Sec-Fetch-Site` (W3C Fetch Metadata); browsers omit it if they do not trust the connection.
    package let site: String?
    /// `Origin` (RFC 6454).
    package let origin: String?
    /// The `Host` of the request.
    package let host: String?

    package init(_ request: HTTPRequest) {
        method = request.method
        site = request.headerFields[.secFetchSite]
        origin = request.headerFields[.origin]
        host = request.authority
    }

    /// Whether a request with a cookie may be served.
    ///
    /// A request that changes something must come from the console itself. A request that only reads must not come from
    /// another page.
    package var isOwn: Bool {
        let isLook = method == .get || method == .head
        if let site { return site == "same-origin" || isLook && site == "none" }
        guard let origin else { return isLook }
        return isOfHost(origin)
    }

    /// Whether a sign-in is allowed. Programs other than browsers do not send an origin.
    package var maySignIn: Bool {
        if let site { return site == "same-origin" }
        return origin.map(isOfHost) ?? true
    }

    private func isOfHost(_ origin: String) -> Bool {
        guard let host else { return false }
        return ["http://", "https://"].contains { origin.lowercased() == $0 + host.lowercased() }
    }
}
