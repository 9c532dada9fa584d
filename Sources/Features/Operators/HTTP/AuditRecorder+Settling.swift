import JSONText
import SyncHTTP
import SyncModel

extension AuditRecorder {
    /// Notes the filter of a request to settle mutations, or the first of their ids.
    ///
    /// Neither a device nor a text of a user is noted, because an erasure does not search for them in the audit log.
    func record(_ request: BulkRequest) {
        record("statuses", texts: request.statuses.map(\.rawValue))
        if let type = request.entityType { record("entity_type", type) }
        if request.deviceID != nil { record("of_one_device", true) }
        if let user = request.userID { record(user: user) }
        if let ids = request.ids { record(ids: ids) }
    }

    /// Notes the kind of a bulk operation, and its filter or the first of its ids.
    func record(_ draft: OperationDraft) {
        record("kind", draft.kind.rawValue)
        if !draft.filter.statuses.isEmpty { record("statuses", texts: draft.filter.statuses.map(\.rawValue)) }
        if let type = draft.filter.entityType { record("entity_type", type) }
        if let code = draft.filter.errorCode { record("error_code", code) }
        if let status = draft.filter.responseStatus { record("response_status", Int(status)) }
        if let user = draft.filter.user { record(user: user) }
        if let dependants = draft.dependants { record("dependents", dependants.rawValue) }
        if let strategy = draft.strategy { record("strategy", strategy.rawValue) }
        if !draft.reason.isEmpty { record(reason: draft.reason) }
        if let ids = draft.ids { record(ids: ids) }
    }
}
