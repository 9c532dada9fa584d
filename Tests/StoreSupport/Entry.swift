package import Foundation
import JSONText

/// One entry of a push, to be written as JSON.
package struct Entry {
    package var id: UUID
    package var key: UUID
    package var number: Int64
    package var operation: String
    package var type: String
    package var local: UUID?
    package var server: String?
    package var payload: String?
    /// Further members, as JSON text.
    package var extra: [String: String]

    package init(
        id: UUID = UUID(),
        key: UUID = UUID(),
        number: Int64,
        operation: String,
        type: String,
        local: UUID? = nil,
        server: String? = nil,
        payload: String?,
        extra: [String: String]
    ) {
        self.id = id
        self.key = key
        self.number = number
        self.operation = operation
        self.type = type
        self.local = local
        self.server = server
        self.payload = payload
        self.extra = extra
    }

    package var json: String {
        var members = [
            #""id":"\#(id.lowercased)""#, #""idempotency_key":"\#(key.lowercased)""#, #""sequence_number":\#(number)"#,
            #""operation":"\#(operation)""#, #""entity_type":"\#(type)""#, #""created_at":"2026-11-20T07:00:00.000Z""#,
        ]
        if let local { members.append(#""local_id":"\#(local.lowercased)""#) }
        if let server { members.append(#""server_id":\#(server)"#) }
        if let payload { members.append(#""payload":\#(payload)"#) }
        members += extra.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }
        return "{" + members.joined(separator: ",") + "}"
    }
}
