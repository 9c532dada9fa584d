import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore

@Suite(.serialized) struct PropertyHistoryTests {
    @Test(arguments: 1...3)
    func `every mutation of a random history takes effect once and in order`(_ run: Int) async throws {
        // the last run uses encryption at rest, which must not change the result
        let masterKeys = run == 3 ? TestKeys.first : nil
        let seed = Seed()
        var generator = SeededRandom(seed.value &+ UInt64(run))
        let replicas = try await GatewayPair(masterKeys: masterKeys)
        let organization = try await replicas.base.organization()
        _ = try await replicas.base.store.administration.putEntityType(
            "country",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"id_space":"shared"}"#.utf8))
        )
        let world = HistoryWorld(replicas, organization)
        let phones = (0..<3).flatMap { _ in
            let user = generator.uuid()
            return (0..<2).map { _ in HistoryPhone(world, user: user, generator.split()) }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for phone in phones { group.addTask { try await phone.live(count: 40) } }
            try await group.waitForAll()
        }
        var mutations: [CapturedMutation] = []
        for phone in phones { mutations += await phone.captured }
        let model = try HistoryModel(mutations, world.ledger, "\(seed), run \(run)")
        try await model.compareTables(replicas.base, organization)
        let readers = Set(mutations.map(\.user))
        for reader in readers {
            let phone = Phone(replicas.base, organization, user: reader)
            try model.compareFeed(try await phone.pull(limit: Int.random(in: 1...20, using: &generator)), reader)
        }
    }
}

/// The expected result of a history, computed from the answers alone. It orders each entity's writes by the returned
/// versions, and applies them to compute the documents.
private struct HistoryModel {
    private struct Entity {
        var version: Int64 = 0
        var isDeleted = false
        var document: [String: String] = [:]
        var creator: CapturedMutation
        /// The last write; nil if it is uncertain because of repeated deletes.
        var lastWrite: CapturedMutation?
    }

    private let comment: String
    private let mutations: [CapturedMutation]
    private var answers: [UUID: AnswerLedger.Answer] = [:]
    /// Server ids by user and client id.
    private var ids: [UUID: [UUID: String]] = [:]
    private var entities: [EntityKey: Entity] = [:]

    init(_ mutations: [CapturedMutation], _ ledger: AnswerLedger, _ comment: String) throws {
        self.mutations = mutations
        self.comment = comment
        for mutation in mutations { try take(mutation, ledger[mutation.entry.key]) }
        checkIdentities()
        let writes = Dictionary(grouping: mutations.filter(\.isValid)) { mutation in
            EntityKey(type: mutation.entry.type, id: answers[mutation.entry.key]?.id ?? "")
        }
        for (key, writes) in writes { entities[key] = try run(writes, key) }
    }

    /// Requires that a mutation has one first answer, and that each repeat returns the same answer.
    private mutating func take(_ mutation: CapturedMutation, _ all: [AnswerLedger.Answer]) throws {
        let first = try #require(all.first { !$0.isReplayed }, "\(comment): \(mutation.entry.json) has no first answer")
        #expect(all.filter { !$0.isReplayed }.count == 1, "\(comment): \(mutation.entry.json) was executed twice")
        #expect(Set(all.map(\.outcome)).count == 1, "\(comment): \(mutation.entry.json) was answered \(all)")
        #expect(
            mutation.isValid ? ["succeeded", "discarded"].contains(first.status) : first.status == "rejected",
            "\(comment): \(mutation.entry.json) became \(first)"
        )
        answers[mutation.entry.key] = first
        if mutation.isValid, mutation.entry.operation == "create", let client = mutation.entry.local {
            #expect(first.status == "succeeded", "\(comment)")
            ids[mutation.user, default: [:]][client] = first.id
        }
    }

    private func checkIdentities() {
        let all = ids.values.flatMap(\.values)
        #expect(Set(all).count == all.count, "\(comment): two creates share a server id")
        for mutation in mutations where mutation.isValid {
            let expected =
                mutation.entry.local.map { ids[mutation.user]?[$0] }
                ?? mutation.entry.server.map { $0.trimmingCharacters(in: ["\""]) }
            #expect(answers[mutation.entry.key]?.id == expected, "\(comment): \(mutation.entry.json)")
        }
    }

    // MARK: - One entity

    private func run(_ writes: [CapturedMutation], _ key: EntityKey) throws -> Entity {
        let byVersion = Dictionary(grouping: writes) { answers[$0.entry.key]?.version ?? 0 }
        #expect(byVersion[0] == nil, "\(comment): \(key)")
        let first = try #require(
            byVersion[1]?.first { $0.entry.operation == "create" && status($0) == "succeeded" },
            "\(comment): \(key) was never created"
        )
        var entity = Entity(creator: first)
        for version in 1...(byVersion.keys.max() ?? 1) {
            let here = byVersion[version] ?? []
            let done = here.filter { status($0) == "succeeded" }
            let effective = done.filter { $0.entry.operation != "delete" }
            let deletes = done.filter { $0.entry.operation == "delete" }
            #expect(effective.count <= 1, "\(comment): \(key) has two writes of version \(version)")
            #expect(effective.isEmpty || deletes.isEmpty, "\(comment): \(key) version \(version)")
            let write = try #require(effective.first ?? deletes.first, "\(comment): \(key) lacks version \(version)")
            // a create of a deleted shared id restores it
            let isRight = write.entry.operation == "create" ? version == 1 || entity.isDeleted : version > 1
            #expect(isRight, "\(comment): \(key) version \(version)")
            apply(write, to: &entity)
            entity.version = version
            entity.lastWrite = deletes.count > 1 ? nil : write
            for loser in here where status(loser) == "discarded" {
                // only a create loses to an entity that is not deleted
                let isRight = loser.entry.operation == "create" || entity.isDeleted
                #expect(isRight, "\(comment): \(loser.entry.json) lost to version \(version)")
            }
        }
        return entity
    }

    private func apply(_ write: CapturedMutation, to entity: inout Entity) {
        entity.isDeleted = write.entry.operation == "delete"
        if write.entry.operation != "update" { entity.document = [:] }
        for (name, text) in write.values(ids[write.user] ?? [:]) {
            entity.document[name] = text == "null" ? nil : text
        }
    }

    private func status(_ mutation: CapturedMutation) -> String { answers[mutation.entry.key]?.status ?? "" }

    // MARK: - Tables

    func compareTables(_ gateway: Gateway, _ organization: Organization) async throws {
        try compareEntities(
            await gateway.read("SELECT entity_type, id, version, is_deleted, document, owner_id FROM entities"),
            await gateway.store.catalog.seal(of: organization.id)
        )
        try compareOrder(
            await gateway.read(
                "SELECT user_id, device_id, sequence_number, position, id FROM mutations ORDER BY position"
            )
        )
        try compareMappings(
            await gateway.read(
                "SELECT user_id, client_id, entity_type, server_id, status, mutation_id FROM id_mappings"
            )
        )
        try compareCounters(
            await gateway.read("SELECT device_id, accepted_sequence FROM devices"),
            await gateway.read("SELECT user_id, next_position, queued_count, open_count, halted_by FROM lanes")
        )
    }

    private func compareEntities(_ rows: Rows, _ seal: Seal) throws {
        #expect(rows.count == entities.count, "\(comment)")
        for row in 0..<rows.count {
            let key = EntityKey(
                type: try rows.read(row, 0, as: String.self),
                id: try rows.read(row, 1, as: String.self)
            )
            let entity = try #require(entities[key], "\(comment): \(key) has no create")
            #expect(try rows.read(row, 2, as: Int64.self) == entity.version, "\(comment): \(key)")
            #expect(try rows.read(row, 3, as: Bool.self) == entity.isDeleted, "\(comment): \(key)")
            #expect(try rows.read(row, 5, as: UUID.self) == entity.creator.user, "\(comment): \(key)")
            let place = SealedPlace.document(type: key.type, id: key.id)
            guard let document = try seal.open(json: rows.read(row, 4, as: [UInt8]?.self), as: place) else { continue }
            expect(try JSONTree(parsing: document).root, is: entity, key)
        }
    }

    private func expect(_ document: JSONValue, is entity: Entity, _ key: EntityKey) {
        let members = document.namedTexts
        #expect(members.count == entity.document.count, "\(comment): \(key)")
        for (name, text) in members { #expect(entity.document[name] == text, "\(comment): \(key) at \(name)") }
    }

    /// Requires that lanes contain each mutation once. Mutations of a device are in the order of its numbers, and
    /// mutations of an entity in the order of its versions.
    private func compareOrder(_ rows: Rows) throws {
        let valid = Dictionary(uniqueKeysWithValues: mutations.filter(\.isValid).map { ($0.entry.id, $0) })
        #expect(rows.count == valid.count, "\(comment)")
        var lastNumber: [UUID: Int64] = [:]
        var nextPosition: [UUID: Int64] = [:]
        var lastVersion: [[String]: Int64] = [:]
        for row in 0..<rows.count {
            let (user, device, number) = (
                try rows.read(row, 0, as: UUID.self), try rows.read(row, 1, as: UUID.self),
                try rows.read(row, 2, as: Int64.self)
            )
            #expect(number > lastNumber[device] ?? 0, "\(comment): device \(device)")
            lastNumber[device] = number
            #expect(try rows.read(row, 3, as: Int64.self) == nextPosition[user, default: 1], "\(comment): user \(user)")
            nextPosition[user, default: 1] += 1
            let mutation = try #require(valid[try rows.read(row, 4, as: UUID.self)], "\(comment)")
            #expect(mutation.entry.number == number && mutation.device == device, "\(comment)")
            let answer = answers[mutation.entry.key]
            let entity = [user.lowercased, mutation.entry.type, answer?.id ?? ""]
            #expect(answer?.version ?? 0 >= lastVersion[entity] ?? 0, "\(comment): \(entity) moved back")
            lastVersion[entity] = answer?.version
        }
    }

    private func compareMappings(_ rows: Rows) throws {
        let creates = mutations.filter { $0.isValid && $0.entry.operation == "create" && $0.entry.local != nil }
        #expect(rows.count == creates.count, "\(comment)")
        let byID = Dictionary(uniqueKeysWithValues: creates.map { ($0.entry.id, $0) })
        for row in 0..<rows.count {
            let create = try #require(byID[try rows.read(row, 5, as: UUID.self)], "\(comment)")
            #expect(try rows.read(row, 0, as: UUID.self) == create.user, "\(comment)")
            #expect(try rows.read(row, 1, as: UUID.self) == create.entry.local, "\(comment)")
            #expect(try rows.read(row, 2, as: String.self) == create.entry.type, "\(comment)")
            #expect(try rows.read(row, 3, as: String?.self) == answers[create.entry.key]?.id, "\(comment)")
            #expect(try rows.read(row, 4, as: String.self) == "resolved", "\(comment)")
        }
    }

    private func compareCounters(_ devices: Rows, _ lanes: Rows) throws {
        let numbers = Dictionary(grouping: mutations, by: \.device).mapValues { $0.map(\.entry.number).max() ?? 0 }
        #expect(devices.count == numbers.count, "\(comment)")
        for row in 0..<devices.count {
            #expect(
                try devices.read(row, 1, as: Int64.self) == numbers[try devices.read(row, 0, as: UUID.self)],
                "\(comment)"
            )
        }
        let counts = Dictionary(grouping: mutations.filter(\.isValid), by: \.user).mapValues { Int64($0.count) }
        #expect(lanes.count == counts.count, "\(comment)")
        for row in 0..<lanes.count {
            let count = counts[try lanes.read(row, 0, as: UUID.self)] ?? 0
            #expect(try lanes.read(row, 1, as: Int64.self) == count + 1, "\(comment)")
            #expect(try lanes.read(row, 2, as: Int32.self) == 0, "\(comment)")
            #expect(try lanes.read(row, 3, as: Int32.self) == 0, "\(comment)")
            #expect(lanes.isNull(row, 4), "\(comment)")
        }
    }

    // MARK: - The feed

    /// Requires that the feed has each entity once, in its last state. Last writes of one device are in the order of
    /// its numbers.
    func compareFeed(_ changes: [JSONValue], _ reader: UUID) throws {
        #expect(changes.count == entities.count, "\(comment)")
        var seen: Set<EntityKey> = []
        var lastNumber: [UUID: Int64] = [:]
        for change in changes {
            let key = EntityKey(type: change["entity_type"]?.string ?? "", id: change.entityID)
            #expect(seen.insert(key).inserted, "\(comment): \(key) appears twice")
            let entity = try #require(entities[key], "\(comment): \(key) has no create")
            #expect(change.version == entity.version, "\(comment): \(key)")
            #expect(change["deleted"]?.bool == entity.isDeleted, "\(comment): \(key)")
            #expect(
                change["client_id"]?.uuid == (entity.creator.user == reader ? entity.creator.entry.local : nil),
                "\(comment): \(key)"
            )
            if !entity.isDeleted, let document = change["document"] { expect(document, is: entity, key) }
            guard let write = entity.lastWrite else { continue }
            #expect(change["updated_by"]?.uuid == write.user, "\(comment): \(key)")
            #expect(write.entry.number > lastNumber[write.device] ?? 0, "\(comment): \(key) is out of order")
            lastNumber[write.device] = write.entry.number
        }
    }
}
