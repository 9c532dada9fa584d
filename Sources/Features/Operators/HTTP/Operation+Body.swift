import Foundation
package import JSONText
import SyncHTTP
import SyncModel
import SyncStore

extension OperationRow: AnswerBody {
    package var expectedBytes: Int { 1_024 + (ids?.count ?? 0) * 40 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("organization_id", organization)
        writer.member("kind", kind.rawValue)
        writer.member("filter", object: writeFilter)
        writer.member("dependents", dependants?.rawValue)
        writer.member("strategy", strategy?.rawValue)
        writer.member("reason", reason)
        writer.member("actor", actor)
        writer.member("per_second", Int64(perSecond))
        writer.member("state", state.rawValue)
        writer.member("matched", matched)
        if let total { writer.member("total", total) } else { writer.member(null: "total") }
        writer.member("done", tally.done)
        writer.member("skipped", tally.skipped)
        writer.member("failed", tally.failed)
        writer.member("reasons", reasons.sorted { ($1.value, $0.key) < ($0.value, $1.key) }) { writer, reason in
            writer.object { writer in
                writer.member("code", reason.key)
                writer.member("count", reason.value)
            }
        }
        writer.member("error", error)
        writer.member("gateway_id", gateway)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("started_at", startedAt?.rfc3339)
        writer.member("changed_at", changedAt.rfc3339)
        writer.member("ended_at", endedAt?.rfc3339)
    }

    private func writeFilter(to writer: inout JSONWriter) {
        writer.member("status", filter.statuses.map(\.rawValue))
        writer.member("entity_type", filter.entityType)
        writer.member("response_status", filter.responseStatus.map(Int64.init))
        writer.member("error_code", filter.errorCode)
        writer.member("user_id", filter.user)
        writer.name("ids")
        if let ids {
            writer.beginArray()
            for id in ids { writer.uuid(id) }
            writer.endArray()
        } else {
            writer.null()
        }
    }
}

extension OperationStore.Page: AnswerBody {
    package var expectedBytes: Int { 64 + operations.count * 768 }

    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("operations", operations)
        writer.member("next", next)
    }
}

/// What an operation would be about, and who the users of its sample are.
struct OperationPreviewAnswer: AnswerBody {
    let preview: OperationStore.Preview
    let subjects: [UUID: [Subject]]

    var expectedBytes: Int { 256 + preview.sample.count * 768 }

    func writeMembers(to writer: inout JSONWriter) {
        writer.member("count", preview.count)
        writer.member("users", preview.users)
        writer.member("sample", preview.sample) { writer, mutation in
            writer.object { writer in
                mutation.writeMembers(to: &writer)
                writer.member("subjects", subjects[mutation.lane.user] ?? [])
            }
        }
    }
}
