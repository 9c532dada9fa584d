import Foundation
import JSONText
import TestSupport

/// The offline mutations of one device, in batches, and their expected result once all are accepted.
struct Outbox: Sendable {
    /// An entity that only this device writes.
    struct Entity: Sendable {
        let type: String
        let localID: UUID
        /// The document's members, as JSON texts. Client ids are kept as this device wrote them.
        var document: [String: String]
        var version: Int64
        var isDeleted = false
    }

    let organization: UUID
    let user: UUID
    let device: UUID
    private(set) var batches: [[Draft]] = []
    private(set) var entities: [Entity] = []
    /// The mutations of the organization's tally, which every device writes. Each adds a member with a unique name.
    private(set) var tallied: [UUID] = []
    private(set) var count: Int64 = 0
    private var random: SeededRandom

    /// Generates mutations: creates that reference each other by client id, changes of created entities, writes to the
    /// tally.
    ///
    /// - Parameter tally: the server id of the organization's tally.
    init(organization: UUID, user: UUID, tally: String, mutations: Int64, random: SeededRandom) {
        self.random = random
        self.organization = organization
        self.user = user
        device = self.random.uuid()
        while count < mutations {
            let size = Int64.random(in: 1...6, using: &self.random)
            batches.append((0..<min(size, mutations - count)).map { _ in draw(tally) })
        }
    }

    private mutating func draw(_ tally: String) -> Draft {
        let living = entities.indices.filter { !entities[$0].isDeleted }
        let roll = Int.random(in: 0..<100, using: &random)
        guard roll < 80 else { return write(tally) }
        guard roll >= 35, let index = living.randomElement(using: &random) else { return create(near: living) }
        return switch roll {
        case ..<60: change(index, "update")
        case ..<70: change(index, "replace")
        default: change(index, "delete")
        }
    }

    /// Creates a new entity. It usually references an older entity in its payload, and occasionally in its
    /// dependencies.
    private mutating func create(near living: [Int]) -> Draft {
        let localID = random.uuid()
        var document = ["made": "\(count + 1)"]
        var members: [String: String] = [:]
        if random.chance(70), let other = living.randomElement(using: &random) {
            document["parent"] = entities[other].localID.quoted
            document["all"] = "[\(entities[other].localID.quoted),null]"
            if random.chance(50) { members["dependency_ids"] = "[\(entities[other].localID.quoted)]" }
        }
        let type = random.chance(50) ? "contact" : "activity"
        entities.append(Entity(type: type, localID: localID, document: document, version: 1))
        members["local_id"] = localID.quoted
        members["payload"] = Self.json(document)
        return draft("create", type, members)
    }

    private mutating func change(_ index: Int, _ operation: String) -> Draft {
        var entity = entities[index]
        var members = ["local_id": entity.localID.quoted]
        if random.chance(50) { members["base_version"] = "\(entity.version)" }
        if operation == "delete" {
            entity.isDeleted = true
        } else {
            let name = operation == "update" ? "m\(Int.random(in: 0..<4, using: &random))" : "replaced"
            let payload = [name: "\(count + 1)"]
            entity.document = operation == "update" ? entity.document.merging(payload) { $1 } : payload
            members["payload"] = Self.json(payload)
        }
        entity.version += 1
        entities[index] = entity
        return draft(operation, entity.type, members)
    }

    private mutating func write(_ tally: String) -> Draft {
        let id = random.uuid()
        tallied.append(id)
        return draft(
            "update",
            "tally",
            ["id": id.quoted, "server_id": #""\#(tally)""#, "payload": Self.json([id.lowercased: "true"])]
        )
    }

    private mutating func draft(_ operation: String, _ type: String, _ members: [String: String]) -> Draft {
        count += 1
        let required = [
            "id": random.uuid().quoted, "idempotency_key": random.uuid().quoted, "sequence_number": "\(count)",
            "operation": #""\#(operation)""#, "entity_type": #""\#(type)""#,
            "created_at": #""2026-11-18T07:00:00.000Z""#,
        ]
        return Draft(members: required.merging(members) { $1 })
    }

    /// An object of these members.
    static func json(_ members: [String: String]) -> String {
        "{" + members.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",") + "}"
    }
}
