package import Foundation
import JSONText
import SyncModel

extension WebhookDelivery {
    /// The id of the message, as its header has it.
    package var messageID: String { id.lowercased }

    /// The body that is sent and signed: byte for byte the same in all attempts.
    package func body(of organization: UUID) -> [UInt8] {
        JSONWriter.object(capacity: data.count + 200) { writer in
            writer.member("type", event.rawValue)
            writer.member("timestamp", occurredAt.rfc3339)
            writer.member("sequence", sequence)
            writer.member("organization_id", organization)
            writer.member("data", raw: data)
        }
    }
}
