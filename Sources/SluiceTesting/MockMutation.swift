import SluiceClient

/// A mutation that a test's gateway has accepted.
struct MockMutation: Sendable {
    /// The mutation as its client sent it.
    let entry: JSON
    let writer: MockState.Writer
    var payload: JSON?
    var status = "pending"
    /// A failure that the test has specified. It occurs once.
    var failure: (status: Int, body: JSON)?
    /// Whether the mutation runs on any version of the entity, because a person has seen the present version.
    var isForced = false
    /// Whether the payload is the whole document, because a person has decided to override a deletion.
    var isWhole = false
    var serverID: JSON?
    var version: Int64?
    var error: JSON?
    var response: JSON?
    var resolution: String?
    var blockedBy: [JSON] = []
    var revision: Int64 = 1

    init(_ entry: JSON, by writer: MockState.Writer) {
        self.entry = entry
        self.writer = writer
        payload = entry["payload"]
        serverID = entry["server_id"]
    }

    var type: String { entry["entity_type"]?.string ?? "" }

    var isOpen: Bool { status == "pending" || status == "blocked" }

    /// `create`, `update`, `replace` or `delete`.
    var operation: String {
        let operation = entry["operation"]?.string ?? ""
        return ["POST": "create", "PATCH": "update", "PUT": "replace", "DELETE": "delete"][operation] ?? operation
    }

    /// The client id of the entity that the mutation creates or changes, if the mutation contains one.
    var clientName: MockState.ClientName? {
        entry["local_id"].flatMap { $0.isNull ? nil : $0 }.map {
            MockState.ClientName(user: writer.user, type: type, id: $0.lowercased)
        }
    }

    /// Returns whether the mutation needs the entity with this client id.
    func needs(_ name: MockState.ClientName) -> Bool {
        (operation != "create" && clientName == name) || payload?.contains(name.id) ?? false
    }

    /// The mutation's result in a push.
    var result: JSON {
        [
            "id": entry["id"] ?? .null, "idempotency_key": entry["idempotency_key"] ?? .null,
            "sequence_number": entry["sequence_number"] ?? .null, "status": .string(status),
            "server_id": status == "conflict" && operation == "create" ? .null : serverID ?? .null,
            "version": version.map(JSON.integer) ?? .null, "etag": .null, "blocked_by": .array(blockedBy),
            "resolution": resolution.map(JSON.string) ?? .null, "response": response ?? .null, "error": error ?? .null,
            "revision": .integer(revision), "attempt_count": 0, "next_retry_at": .null,
        ]
    }

    /// The result together with the mutation's entry.
    var json: JSON {
        var json = entry
        for (name, value) in result.object ?? [:] { json[name] = value }
        json["payload"] = payload ?? .null
        json["device_id"] = .string(writer.device)
        return json
    }
}

extension JSON {
    /// The id as a dictionary key, with UUIDs in lower case.
    var lowercased: String { string?.lowercased() ?? text }

    /// Returns whether the value contains an id.
    func contains(_ id: String) -> Bool {
        switch self {
        case .array(let elements): elements.contains { $0.contains(id) }
        case .object(let members): members.values.contains { $0.contains(id) }
        case .string(let text): text.lowercased() == id
        default: false
        }
    }

    /// Returns the value with its ids replaced.
    func replacing(_ ids: (String) -> JSON?) -> JSON {
        switch self {
        case .array(let elements): .array(elements.map { $0.replacing(ids) })
        case .object(let members): .object(members.mapValues { $0.replacing(ids) })
        case .string(let text): ids(text.lowercased()) ?? self
        default: self
        }
    }
}
