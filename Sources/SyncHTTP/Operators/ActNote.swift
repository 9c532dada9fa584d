import Foundation
import JSONText
import SyncModel
import Synchronization

/// Takes what an endpoint tells of the act that it is doing, for the audit.
final class ActNote: Sendable {
    /// Members of a body that are named.
    private static let namedMembers = 32
    /// Ids that are named.
    private static let namedIDs = 20

    private let outcome = Mutex(AuditOutcome())
    private let isTrial = Atomic(false)

    /// Whether something may be another than it was: unless the act was only to show what would be.
    var mayHaveChanged: Bool { !isTrial.load(ordering: .relaxed) }

    /// Notes that the act changes nothing.
    func noteTrial() { isTrial.store(true, ordering: .relaxed) }

    func note(_ name: StaticString, _ value: some JSONWritable & Sendable) {
        outcome.withLock { $0.note(name, value) }
    }

    /// Notes a text that is JSON already: ids and filters, never what users wrote.
    func note(_ name: StaticString, raw value: [UInt8]) {
        outcome.withLock { $0.note(name, raw: value) }
    }

    /// Notes whom the act is about, and whom that user is joined into.
    func note(user: UUID? = nil, into: UUID? = nil) {
        outcome.withLock { outcome in
            outcome.user = user ?? outcome.user
            outcome.into = into ?? outcome.into
        }
    }

    /// Notes why: where the act's own reason has no room for it, among what came of it.
    private func note(reason: String) {
        guard reason.utf8.count <= AuditReason.maximumBytes else { return note("reason", reason) }
        outcome.withLock { $0.reason = reason }
    }

    /// Notes what a request says anything of: the names of its body's members, and none of their values.
    func note(membersOf body: [UInt8]) {
        guard let members = (try? JSONTree(parsing: body))?.root.members else { return }
        note("members", raw: Self.list(members.prefix(Self.namedMembers).map { String($0.0.string.prefix(64)) }))
    }

    /// Notes which mutations are to be settled: of what filter, or the first of their ids. Neither device nor user stands
    /// there, since an erasure does not look for them.
    func note(_ request: BulkRequest) {
        note("statuses", raw: Self.list(request.statuses.map(\.rawValue)))
        if let type = request.entityType { note("entity_type", type) }
        if request.deviceID != nil { note("of_one_device", true) }
        if let user = request.userID { note(user: user) }
        guard let ids = request.ids else { return }
        note("ids", raw: Self.list(ids.prefix(Self.namedIDs).map(\.lowercased)))
        note("id_count", ids.count)
    }

    /// Notes what an operation is to do, and to which mutations.
    func note(_ draft: OperationDraft) {
        note("kind", draft.kind.rawValue)
        if !draft.filter.statuses.isEmpty { note("statuses", raw: Self.list(draft.filter.statuses.map(\.rawValue))) }
        if let type = draft.filter.entityType { note("entity_type", type) }
        if let code = draft.filter.errorCode { note("error_code", code) }
        if let status = draft.filter.responseStatus { note("response_status", Int(status)) }
        if let user = draft.filter.user { note(user: user) }
        if let dependants = draft.dependants { note("dependents", dependants.rawValue) }
        if let strategy = draft.strategy { note("strategy", strategy.rawValue) }
        if !draft.reason.isEmpty { note(reason: draft.reason) }
        guard let ids = draft.ids else { return }
        note("ids", raw: Self.list(ids.prefix(Self.namedIDs).map(\.lowercased)))
        note("id_count", ids.count)
    }

    private static func list(_ texts: [String]) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginArray()
        for text in texts { writer.string(text) }
        writer.endArray()
        return writer.bytes
    }

    /// What was noted, behind how the request was answered.
    func outcome(status: Int, code: String?) -> AuditOutcome {
        outcome.withLock { noted in
            var whole = AuditOutcome()
            whole.note("status", status)
            if let code { whole.note("code", code) }
            whole.add(noted)
            return whole
        }
    }
}
