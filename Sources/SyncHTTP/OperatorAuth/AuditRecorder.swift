package import Foundation
package import JSONText
package import SyncModel
import Synchronization

/// Collects an endpoint's details of its act, for the audit log.
package final class AuditRecorder: Sendable {
    /// Members of a body that are named.
    private static let namedMembers = 32
    /// Ids that are named.
    private static let namedIDs = 20

    private let outcome = Mutex(AuditOutcome())
    private let isDryRun = Atomic(false)

    /// Whether something may be another than it was: unless the act was only to show what would be.
    package var mayHaveChanged: Bool { !isDryRun.load(ordering: .relaxed) }

    /// Notes that the act changes nothing.
    package func markDryRun() { isDryRun.store(true, ordering: .relaxed) }

    package func record(_ name: StaticString, _ value: some JSONWritable & Sendable) {
        outcome.withLock { $0.record(name, value) }
    }

    /// Records a text that is JSON already: ids and filters, never user content.
    package func record(_ name: StaticString, raw value: [UInt8]) {
        outcome.withLock { $0.record(name, raw: value) }
    }

    /// Records the user that the act is about, and the target if the user is joined.
    package func record(user: UUID? = nil, into: UUID? = nil) {
        outcome.withLock { outcome in
            outcome.user = user ?? outcome.user
            outcome.into = into ?? outcome.into
        }
    }

    /// Records the reason; if it is too long for the act's own reason, it is recorded among the results.
    package func record(reason: String) {
        guard reason.utf8.count <= AuditReason.maximumBytes else { return record("reason", reason) }
        outcome.withLock { $0.reason = reason }
    }

    /// Records the names of a body's members, without their values.
    package func record(membersOf body: [UInt8]) {
        guard let members = (try? JSONTree(parsing: body))?.root.members else { return }
        record("members", raw: Self.list(members.prefix(Self.namedMembers).map { String($0.0.string.prefix(64)) }))
    }

    /// Notes the first of some ids, and how many there are.
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

    /// Returns the recorded details, after the status of the response.
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
