import Foundation
import SluiceClient

/// All data of a mock gateway. A copy of this value is a backup.
struct MockState: Sendable {
    struct Name: Sendable, Hashable {
        let type: String
        let id: JSON
    }

    struct Writer: Sendable, Hashable {
        let user: String
        let device: String

        static let colleague = Writer(user: "a colleague", device: "")
    }

    struct Entity: Sendable {
        var version: Int64
        /// The entity's version before the latest uninterrupted series of writes by ``writer``.
        var base: Int64 = 0
        var isDeleted: Bool
        var document: JSON
        /// The user who created the entity with ``clientID``.
        let owner: String
        let clientID: JSON?
        var writer: Writer
        /// The position in the feed.
        var position: Int64
        var updatedAt: String
    }

    /// A client id of a user.
    struct ClientName: Sendable, Hashable {
        let user: String
        let type: String
        let id: String
    }

    var entities: [Name: Entity] = [:]
    /// All mutations, in the order in which they were accepted.
    var mutations: [MockMutation] = []
    /// The indices of mutations, by user and mutation id.
    private var places: [String: Int] = [:]
    private var keys: Set<String> = []
    private(set) var serverIDs: [ClientName: JSON] = [:]
    /// The server ids, by user and client id.
    private var serverIDsOfUsers: [String: JSON] = [:]
    var accepted: [Writer: Int64] = [:]
    var position: Int64 = 0
    /// The present epoch. Cursors of another epoch are expired.
    var epoch = 1
    var holdsWrites = false
    /// For each type, the members that contain ids, with the type of the ids.
    var relations: [String: [String: String]] = [:]
    /// The deletion rules that differ from the default, `restrict`.
    var onDelete: [String: [String: MockGateway.DeletionRule]] = [:]

    // MARK: - Routes

    mutating func answer(
        _ request: MockGateway.Request,
        of user: String,
        onWrite: (JSON) -> MockGateway.Verdict?
    ) -> MockGateway.Response {
        let steps = request.path.split(separator: "/").map(String.init)
        switch (request.kind, steps.count) {
        case (.registration, 3):
            let number = accepted[Writer(user: user, device: steps[2])] ?? 0
            return .init(["device_id": .string(steps[2]), "accepted_sequence": .integer(number), "next_local_ids": [:]])
        case (.push, _): return push(request.body ?? [:], of: user, onWrite)
        case (.pull, _): return pull(request.query, of: user)
        case (.decision, 4) where steps[1] == "mutations":
            return decide(steps[2], steps[3], request.body ?? [:], of: user)
        case (.reading, 2) where steps[1] == "backlog":
            return .init(["devices": [], "lane": ["held_by": hold(of: user)]])
        case (.reading, 2) where steps[1] == "mutations":
            let statuses = request.query["status"]?.split(separator: ",").map(String.init)
            let found = mutations.filter { $0.writer.user == user && statuses?.contains($0.status) ?? true }
            return .init(["mutations": .array(found.map(\.json)), "next": .null])
        case (.reading, 3) where steps[1] == "mutations":
            guard let index = index(of: steps[2], user) else { return .init(status: 404, .problem(404, "not_found")) }
            return .init(mutations[index].json)
        default: return .init(status: 404, .problem(404, "not_found", "a mock gateway has no \(request.path)"))
        }
    }

    func index(of mutation: String, _ user: String) -> Int? { places["\(user) \(mutation)"] }

    /// - Returns: false if the mutation is a repeat.
    mutating func add(_ mutation: MockMutation) -> Bool {
        let (user, entry) = (mutation.writer.user, mutation.entry)
        guard keys.insert("\(user) \(entry["idempotency_key"]?.string ?? "")").inserted else { return false }
        places["\(user) \(entry["id"]?.string ?? "")"] = mutations.count
        mutations.append(mutation)
        return true
    }

    func isKnown(_ entry: JSON, of user: String) -> Bool {
        keys.contains("\(user) \(entry["idempotency_key"]?.string ?? "")")
    }

    mutating func resolve(_ name: ClientName, to id: JSON) {
        serverIDs[name] = id
        serverIDsOfUsers["\(name.user) \(name.id)"] = id
    }

    /// Returns a document with server ids in place of a user's client ids.
    func resolved(_ document: JSON, of user: String) -> JSON {
        document.replacing { serverIDsOfUsers["\(user) \($0)"] }
    }

    /// Returns the conflict that stops the user's queue, or `null`.
    func hold(of user: String) -> JSON {
        let ids = mutations.filter { $0.writer.user == user && $0.status == "conflict" }.compactMap { $0.entry["id"] }
        return ids.isEmpty ? .null : ["reason": "conflict", "until": .null, "mutation_ids": .array(ids)]
    }

    // MARK: - The feed

    private func pull(_ query: [String: String], of user: String) -> MockGateway.Response {
        let parts = query["since"].map { $0.split(separator: "-").compactMap { Int64($0) } } ?? [Int64(epoch), 0]
        guard parts.count == 2, parts[0] == epoch else {
            return .init(status: 410, .problem(410, "cursor_expired", "", ["snapshot": "/v1/changes"]))
        }
        let types = query["entity_type"]?.split(separator: ",").map(String.init)
        let isSnapshot = query["since"] == nil
        let limit = query["limit"].flatMap { Int($0) } ?? 100
        let changes = entities.filter { name, entity in
            entity.position > parts[1] && types?.contains(name.type) ?? true && !(isSnapshot && entity.isDeleted)
        }.sorted { $0.value.position < $1.value.position }
        let page = changes.prefix(limit)
        let isUpToDate = page.count == changes.count
        let end = isUpToDate ? position : page.last?.value.position ?? position
        return .init([
            "changes": .array(page.map { change($0.key, $0.value, for: user) }),
            "next": .string("\(epoch)-\(end)"), "up_to_date": .bool(isUpToDate),
        ])
    }

    private func change(_ name: Name, _ entity: Entity, for user: String) -> JSON {
        var change = current(name, entity)
        change["client_id"] = (entity.owner == user ? entity.clientID : nil) ?? .null
        change["updated_at"] = .string(entity.updatedAt)
        return change
    }

    /// Returns an entity in the format of changes and conflicts.
    func current(_ name: Name, _ entity: Entity) -> JSON {
        [
            "entity_type": .string(name.type), "id": name.id, "version": .integer(entity.version), "etag": .null,
            "deleted": .bool(entity.isDeleted), "document": entity.isDeleted ? .null : entity.document,
        ]
    }

    // MARK: - Entities

    /// - Parameter clientID: the client id of an entity that is created.
    mutating func write(_ name: Name, _ document: JSON, isDeleted: Bool, by writer: Writer, clientID: JSON? = nil) {
        position += 1
        let now = Date().rfc3339
        guard var entity = entities[name] else {
            entities[name] = Entity(
                version: 1,
                isDeleted: isDeleted,
                document: document.withoutNulls,
                owner: writer.user,
                clientID: clientID,
                writer: writer,
                position: position,
                updatedAt: now
            )
            return
        }
        if entity.writer != writer { entity.base = entity.version }
        entity.version += 1
        entity.isDeleted = isDeleted
        entity.document = document.withoutNulls
        entity.writer = writer
        entity.position = position
        entity.updatedAt = now
        entities[name] = entity
    }
}

extension MockState.Entity {
    /// Returns whether a writer that has seen this version may write the entity.
    func accepts(_ version: Int64?, from writer: MockState.Writer) -> Bool {
        guard let version, version != self.version else { return true }
        return version < self.version && writer == self.writer && version >= base
    }
}
