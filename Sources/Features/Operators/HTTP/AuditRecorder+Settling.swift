import JSONText
import SyncHTTP
import SyncModel

extension AuditRecorder {
    /// Notes the filter of a request to settle mutations, or the first of their ids.
    ///
    /// Neither a device nor a text of a user is noted, because an erasure does not search for them in the audit log.
    func note(_ request: BulkRequest) {
        note("statuses", texts: request.statuses.map(\.rawValue))
        if let type = request.entityType { note("entity_type", type) }
        if request.deviceID != nil { note("of_one_device", true) }
        if let user = request.userID { note(user: user) }
        if let ids = request.ids { note(ids: ids) }
    }

    /// Notes the kind of a bulk operation, and its filter or the first of its ids.
    func note(_ draft: OperationDraft) {
        note("kind", draft.kind.rawValue)
        if !draft.filter.statuses.isEmpty { note("statuses", texts: draft.filter.statuses.map(\.rawValue)) }
        if let type = draft.filter.entityType { note("entity_type", type) }
        if let code = draft.filter.errorCode { note("error_code", code) }
        if let status = draft.filter.responseStatus { note("response_status", Int(status)) }
        if let user = draft.filter.user { note(user: user) }
        if let dependants = draft.dependants { note("dependents", dependants.rawValue) }
        if let strategy = draft.strategy { note("strategy", strategy.rawValue) }
        if !draft.reason.isEmpty { note(reason: draft.reason) }
        if let ids = draft.ids { note(ids: ids) }
    }
}
