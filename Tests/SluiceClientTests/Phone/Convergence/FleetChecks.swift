import Foundation
import GRDB
import SluiceClient

/// The final conditions.
extension Fleet {
    /// All violations.
    func complaints() async throws -> [String] {
        let mutations = try await mutations()
        let entities = try await views[0].entities()
        return try await graphs() + (try await writes(mutations)) + Self.histories(mutations, entities)
            + (forwards ? upstreamHistories(mutations) : [])
    }

    // MARK: - Displayed rows

    private func graphs() async throws -> [String] {
        var found: [String] = []
        let phones = phones.filter { !$0.isLost }
        let graphs = try await phones.asyncMap { try await Self.graph($0) }
        for (phone, graph) in zip(phones, graphs) where graph != graphs[0] {
            let missing = graphs[0].subtracting(graph).sorted().prefix(5)
            let more = graph.subtracting(graphs[0]).sorted().prefix(5)
            found.append("phone \(phone.index) lacks \(missing) and has \(more)")
            note("phone \(phones[0].index): \(phones[0].file.path)\nphone \(phone.index): \(phone.file.path)")
        }
        let dangling = try await phones.asyncMap { try await $0.app.pool.read { try Self.dangling(in: $0) } }
        for (phone, rows) in zip(phones, dangling) {
            let status = phone.app.client.currentStatus
            let held = try await phone.app.pool.read { try HeldRow.fetchAll($0) }
                .filter { rows[EntityReference($0.entityType, $0.key)] == nil && (!$0.isDeletion || rows.isEmpty) }
            let counts = (held: held.count, status.pending, status.failed, status.conflicts)
            let isSame = rows.values.sorted() == dangling[0].values.sorted()
            if status.lastError != nil || counts != (0, 0, 0, 0) || !isSame || (!rows.isEmpty && !hasDisasters) {
                let words = rows.values.sorted()
                found.append("phone \(phone.index): \(counts), \(words), \(status.lastError ?? "no error")")
                note("phone \(phone.index): \(phone.file.path)")
            }
        }
        return found
    }

    private struct EntityReference: Hashable {
        let type: String
        let key: String

        init(_ type: String, _ key: String) { (self.type, self.key) = (type, key) }
    }

    /// The entities that refer to a lost entity, with their types and marks.
    ///
    /// A row can be lost with a phone, or get another id because both its phone and the gateway were restored. A phone
    /// that has the row and a reference to it keeps both and holds the deletion; a phone that receives the reference
    /// later holds the row that has it.
    private static func dangling(in db: Database) throws -> [EntityReference: String] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT b.entity_type, b.key, b.entity_type || ' ' || coalesce(json_extract(b.document, '$._'), '?')
                FROM sluice_base b
                JOIN (VALUES ('customer', '$.customer_id'), ('shelf', '$.shelf_id')) r
                LEFT JOIN sluice_base t ON t.entity_type = r.column1
                    AND t.key = CAST(json_extract(b.document, r.column2) AS TEXT) AND NOT t.is_deleted
                WHERE NOT b.is_deleted AND json_extract(b.document, r.column2) IS NOT NULL AND t.key IS NULL
                """
        )
        return Dictionary(rows.map { (EntityReference($0[0], $0[1]), $0[2]) }) { first, _ in first }
    }

    /// Adds the SQL function `is_compared(type, id)`: whether all phones must show the same row. They need not if the
    /// entity is lost, or refers to a lost entity.
    private static func addComparison(to db: Database) throws {
        let dangling = try dangling(in: db)
        let deleted = Set(
            try Row.fetchAll(db, sql: "SELECT entity_type, key FROM sluice_base WHERE is_deleted")
                .map { EntityReference($0[0], $0[1]) }
        )
        db.add(
            function: DatabaseFunction("is_compared", argumentCount: 2) { values in
                guard let type = String.fromDatabaseValue(values[0]) else { return true }
                let id = UUID.fromDatabaseValue(values[1])?.uuidString.lowercased()
                let number = Int64.fromDatabaseValue(values[1]).map { String($0) }
                let entity = EntityReference(type, id ?? number ?? "")
                return dangling[entity] == nil && !deleted.contains(entity)
            }
        )
    }

    /// The rows of a phone in a form that is the same on all phones, without the phone's own keys.
    private static func graph(_ phone: FleetPhone) async throws -> Set<String> {
        try await phone.app.pool.read { db in
            try addComparison(to: db)
            var graph: Set<String> = []
            func add(_ sql: String) throws {
                for fact in try String.fetchAll(db, sql: sql) {
                    graph.insert(graph.contains(fact) ? fact + " again" : fact)
                }
            }
            try add(
                """
                SELECT 'customer ' || mark || ' ' || substr(name, 1, 20) || ' ' || coalesce(phone, '')
                FROM customer WHERE is_compared('customer', id)
                """
            )
            try add("SELECT 'shelf ' || mark || ' ' || name FROM shelf WHERE is_compared('shelf', id)")
            try add(
                """
                SELECT 'item ' || i.mark || ' ' || i.text || ' on ' || coalesce(s.mark, 'none')
                FROM item i LEFT JOIN shelf s ON s.id = i.shelfID
                WHERE is_compared('item', i.id)
                """
            )
            try add(
                """
                SELECT 'memo ' || m.mark || ' ' || substr(m.text, 1, 20) || ' of ' || coalesce(c.mark, 'none') || ' on '
                    || coalesce(s.mark, 'none')
                FROM memo m LEFT JOIN customer c ON c.id = m.customerID LEFT JOIN shelf s ON s.id = m.shelfID
                WHERE is_compared('memo', m.id)
                """
            )
            for row in try Row.fetchAll(
                db,
                sql: """
                    SELECT m.*, c.mark AS customer FROM meeting m JOIN customer c ON c.id = m.customerID
                    WHERE is_compared('meeting', m.id)
                    """
            ) {
                let guests = try JSON(parsing: row["details"] as String? ?? "{}")["guests"]?.array ?? []
                let names = try guests.map {
                    try String.fetchOne(
                        db,
                        sql: "SELECT mark FROM customer WHERE id = ? AND is_compared('customer', id)",
                        arguments: [UUID(uuidString: $0.string ?? "")]
                    ) ?? "none"
                }
                graph.insert(
                    "meeting \(row["mark"] as String) \(row["title"] as String) \(row["amount"] as String? ?? "") of"
                        + " \(row["customer"] as String), guests \(names)"
                )
            }
            return graph
        }
    }

    // MARK: - Outcomes of writes

    /// Checks that no write is lost, and that each of the gateway's mutations was made by a phone.
    private func writes(_ mutations: [UUID: GatewayView.Mutation]) async throws -> [String] {
        var found: [String] = []
        for entry in ledger.entries {
            let status = mutations[entry.id]?.status
            // a restored phone may have lost its unsent writes
            if !entry.isForgotten || status != nil, !["succeeded", "discarded"].contains(status) {
                let state = try await phones[entry.phone].state(of: entry.id)
                if status == nil, state == .discarded { continue }
                found.append("\(entry.what) \(entry.id) of phone \(entry.phone) is \(status ?? "unknown"), \(state)")
            }
            if entry.isForgotten { continue }
            let state = try await phones[entry.phone].state(of: entry.id)
            switch (status, state) {
            case ("succeeded", .applied(_, _, true)), ("discarded", .discarded), (nil, .discarded): break
            // given up on this phone, and sent by another phone that has it, too
            case ("succeeded", .discarded) where !entry.copies.isEmpty: break
            default:
                found.append(
                    "\(entry.what) \(entry.id) of phone \(entry.phone) is \(status ?? "unknown"), and shown \(state)"
                )
            }
        }
        for mutation in mutations.values where ledger[mutation.id] == nil {
            found.append("no phone made \(mutation)")
        }
        return found
    }

    /// Checks that every version of an entity is the effect of one mutation, that each device's versions have the order
    /// of its sequence numbers, and that the feed shows the last version.
    private static func histories(
        _ mutations: [UUID: GatewayView.Mutation],
        _ entities: [GatewayView.Entity]
    ) -> [String] {
        var found: [String] = []
        let effects = effects(mutations)
        let shown = Dictionary(entities.map { ($0.name, $0) }) { first, _ in first }
        for (name, effects) in effects {
            // deleting a deleted entity creates no version
            var versions = zip(effects.indices, effects).filter { index, effect in
                index == 0 || effect.operation != "delete" || effects[index - 1].operation != "delete"
                    || effects[index - 1].version != effect.version
            }.compactMap(\.1.version)
            // a discarded write may have reported another lane's state before that lane's own response was recorded
            versions = Set(versions + Self.adopted(name, effects, mutations)).sorted()
            if versions != Array(1...Int64(max(versions.count, 1))) {
                found.append("\(name) has the versions \(versions) of \(effects)")
            }
            for (device, own) in Dictionary(grouping: effects, by: \.device) {
                let sequences = own.map(\.sequence)
                if sequences != sequences.sorted() { found.append("\(name): \(device)'s took effect as \(sequences)") }
            }
            guard let last = effects.last else { continue }
            let entity = shown[name]
            let isRight =
                last.operation == "delete"
                ? entity?.isDeleted ?? true
                : entity.map { !$0.isDeleted && $0.version == last.version && $0.mark == last.mark } ?? false
            if !isRight { found.append("\(name) ends as \(String(describing: entity)), not as \(last)") }
        }
        return found
    }

    /// The versions without a write.
    ///
    /// A conflict's response shows the effect of another lane's request. A user who settles for the server
    /// (`server_wins`) brings this effect into the feed before that request's own outcome is written, with the same
    /// state as the next version. Any other state adopted in this way is a violation.
    private static func adopted(
        _ name: String,
        _ effects: [GatewayView.Mutation],
        _ mutations: [UUID: GatewayView.Mutation]
    ) -> [Int64] {
        mutations.values.filter { $0.entity == name && $0.gaveWayTo != nil }.compactMap { given in
            let version = given.version ?? 0
            let isKnown = effects.contains { $0.version == version }
            let next = effects.first { ($0.version ?? 0) > version }
            return !isKnown && next?.mark == given.gaveWayTo ? version : nil
        }
    }

    /// The writes that took effect, by entity, in the order of versions.
    private static func effects(_ mutations: [UUID: GatewayView.Mutation]) -> [String: [GatewayView.Mutation]] {
        let effects = mutations.values.filter { $0.status == "succeeded" && $0.version != nil && $0.entity != nil }
        return Dictionary(grouping: effects, by: { $0.entity ?? "" })
            .mapValues { $0.sorted { $0.place < $1.place } }
    }

    /// Checks that the upstream received exactly the writes that took effect, once and in this order.
    private func upstreamHistories(_ mutations: [UUID: GatewayView.Mutation]) -> [String] {
        let endpoints = Dictionary(
            Self.entities(forwards: true).compactMap { entity in entity.endpoint.map { (entity.entityType, $0) } }
        ) { first, _ in first }
        var expected: [String: [String]] = [:]
        for (name, effects) in Self.effects(mutations) {
            let words = name.split(separator: " ")
            guard let endpoint = endpoints[String(words[0])] else { continue }
            let requests = effects.map { $0.operation == "delete" ? "DELETE" : $0.mark ?? "?" }
            expected["\(endpoint)/\(words[1])"] = requests.enumerated().filter { index, request in
                request != "DELETE" || index == 0 || requests[index - 1] != "DELETE"
            }.map(\.element)
        }
        let received = upstream.history
        return Set(expected.keys).union(received.keys).sorted().compactMap { path in
            expected[path] == received[path]
                ? nil : "\(path) got \(received[path] ?? []) for \(expected[path] ?? [])"
        }
    }
}
