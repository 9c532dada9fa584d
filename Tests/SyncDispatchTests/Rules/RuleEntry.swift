import Foundation
import JSONText
import StoreSupport
import SyncModel

/// A mutation as a phone of a random history captured it.
///
/// `content` numbers the content (product rule 5). Two entries with the same number are the same mutation, even if
/// they contain different ids that are equivalent.
struct RuleEntry: Sendable {
    /// The content of a payload's member, or of an endpoint's segment.
    enum Value: Sendable, Hashable {
        /// JSON text in a payload, plain text in an endpoint.
        case text(String)
        /// A UUID that may be a client id of the user.
        case id(UUID)
    }

    var id: UUID
    var key: UUID
    var content: Int
    var operation: SyncModel.Operation
    var type: RuleType
    var local: UUID?
    /// JSON text of the permanent id.
    var server: String?
    /// The payload's members, in the order of its text; nil without a payload.
    var payload: [(name: String, value: Value)]?
    /// Segments of the path; nil without an endpoint.
    var endpoint: [Value]?
    var dependencies: [UUID] = []
    var baseVersion: Int64?
    var orderKey: String?
    var strategy: ConflictResolution?
    var maxAttempts = 10
    /// Set if a member is out of range, so that the entry itself is refused.
    var isInvalid = false

    /// UUIDs that may be client ids, once each, in the order of the look-ups.
    var references: [UUID] {
        var seen: Set<UUID> = []
        let values = (endpoint ?? []) + (payload ?? []).map(\.value)
        return values.compactMap { value in
            if case .id(let id) = value { id } else { nil }
        }.filter { seen.insert($0).inserted }
    }

    /// The same mutation with server ids in place of client ids, as sent by a worker that rewrote its outbox.
    ///
    /// - Parameter permanent: JSON text of the id that replaces a client id; nil leaves it.
    func rewritten(_ permanent: (UUID) -> String?) -> RuleEntry {
        func value(_ value: Value, isPath: Bool) -> Value {
            guard case .id(let id) = value, id != local || operation != .create, let text = permanent(id) else {
                return value
            }
            return .text(isPath ? text.trimmingCharacters(in: ["\""]) : text)
        }
        var entry = self
        entry.payload = payload?.map { ($0.name, value($0.value, isPath: false)) }
        entry.endpoint = endpoint?.map { value($0, isPath: true) }
        if operation != .create, let local, let id = permanent(local) {
            entry.local = nil
            entry.server = id
        }
        return entry
    }

    /// The text that is sent.
    func json(number: Int64) -> String {
        var members = [
            #""id":"\#(id.lowercased)""#, #""idempotency_key":"\#(key.lowercased)""#, #""sequence_number":\#(number)"#,
            #""operation":"\#(operation.rawValue)""#, #""entity_type":"\#(type.rawValue)""#,
            #""created_at":"2026-11-20T07:00:00.000Z""#, #""max_attempts":\#(isInvalid ? 0 : maxAttempts)"#,
        ]
        if let local { members.append(#""local_id":"\#(local.lowercased)""#) }
        if let server { members.append(#""server_id":\#(server)"#) }
        if let payload { members.append(#""payload":\#(Self.json(payload))"#) }
        if let endpoint {
            let path = endpoint.map { segment in
                switch segment {
                case .text(let text): "/" + text
                case .id(let id): "/" + id.lowercased
                }
            }.joined()
            members.append(#""endpoint":"\#(path)""#)
        }
        if !dependencies.isEmpty {
            let list = dependencies.map { #""\#($0.lowercased)""# }.joined(separator: ",")
            members.append(#""dependency_ids":[\#(list)]"#)
        }
        if let orderKey { members.append(#""order_key":"\#(orderKey)""#) }
        if let baseVersion { members.append(#""base_version":\#(baseVersion)"#) }
        if let strategy { members.append(#""conflict_resolution":"\#(strategy.rawValue)""#) }
        return "{" + members.joined(separator: ",") + "}"
    }

    static func json(_ payload: [(name: String, value: Value)]) -> String {
        let members = payload.map { name, value in
            switch value {
            case .text(let text): #""\#(name)":\#(text)"#
            case .id(let id): #""\#(name)":"\#(id.lowercased)""#
            }
        }
        return "{" + members.joined(separator: ",") + "}"
    }
}

/// The entity types of random histories.
enum RuleType: String, Sendable, Hashable, CaseIterable {
    /// A type in the built-in store, visible to the organization.
    case note
    /// A forwarded type, visible to the owner of the entity.
    case contact

    var isForwarded: Bool { self == .contact }
}
