import Foundation
package import JSONText
package import SyncModel

extension PushVerdict {
    /// Writes the members of an entry's result into an open object.
    ///
    /// - Parameters:
    ///   - entry: evaluated only if there is no record.
    ///   - contents: the contents for which the response has room.
    ///   - index: the result's place in the response.
    package func writeResultMembers(
        of entry: @autoclosure () -> EntryName,
        _ contents: inout AnswerContents,
        at index: Int,
        to writer: inout JSONWriter
    ) {
        switch self {
        case .accepted(let record):
            record.writeResultMembers(replayed: false, &contents, at: "/results/\(index)", to: &writer)
        case .replayed(let record):
            record.writeResultMembers(replayed: true, &contents, at: "/results/\(index)", to: &writer)
        case .rejected(let problem): Self.writeRejected(entry(), problem.json, replayed: false, to: &writer)
        case .rejectedBefore(let error): Self.writeRejected(entry(), error, replayed: true, to: &writer)
        }
    }

    private static func writeRejected(
        _ entry: EntryName,
        _ error: [UInt8],
        replayed: Bool,
        to writer: inout JSONWriter
    ) {
        writer.member("id", entry.id)
        writer.member("idempotency_key", entry.idempotencyKey)
        writer.member("sequence_number", entry.sequenceNumber)
        writer.member("status", "rejected" as StaticString)
        writer.member("replayed", replayed)
        writer.member(null: "revision")
        writer.localID(entry.entity?.client)
        writer.member("server_id", entry.entity?.serverID)
        writer.member(null: "version")
        writer.member(null: "etag")
        writer.member("attempt_count", 0 as Int64)
        writer.member(null: "next_retry_at")
        writer.member("blocked_by", [UUID]())
        writer.member(null: "resolution")
        writer.member(null: "response")
        writer.member("error", raw: error)
    }
}

extension JSONWriter {
    /// Writes the member `warnings` of a result, which most results lack.
    package mutating func warning(_ warning: PushWarning?, at index: Int) {
        guard let warning else { return }
        member("warnings", [warning]) { writer, warning in
            writer.beginObject()
            switch warning {
            case .clientIDWasData:
                writer.member("code", "client_id_was_data" as StaticString)
                writer.member("pointer", "/mutations/\(index)/local_id")
                let detail =
                    "an earlier mutation of this device contains this id. It did not exist then, so it was stored as "
                    + "data and is not replaced by a server id. Send creates before mutations that refer to "
                    + "them, or correct that entity"
                writer.member("detail", detail)
            }
            writer.endObject()
        }
    }
}
