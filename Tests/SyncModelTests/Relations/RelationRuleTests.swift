import Foundation
import JSONText
import Testing

@testable import SyncModel

/// One phone makes an entity refer to another one, which a second phone deletes (product rule 24).
@Suite struct RelationRuleTests {
    private static let ada = Writer(user: UUID(), device: UUID())
    private static let cyd = Writer(user: UUID(), device: UUID())
    private static let bounded = EntityRelations.limit

    /// Contacts, visits of contacts, and notes of visits.
    private struct World {
        var table: EntityTable
        private let visibility: Visibility

        init(
            _ rule: DeletionRule,
            ofNotes noteRule: DeletionRule = .cascade,
            visits visibility: Visibility = .organization,
            _ visitRules: ChannelRules? = nil
        ) {
            self.visibility = visibility
            table = EntityTable(visitRules.map { ["visit": $0] } ?? [:])
            let toContact = Relation(member: "contactId", entityType: "contact", idSpace: .shared, onDelete: rule)
            let toVisit = Relation(member: "visitIds", entityType: "visit", idSpace: .shared, onDelete: noteRule)
            table.relations = EntityRelations([
                "contact": Self.type("contact"), "visit": Self.type("visit", [toContact], visibility),
                "note": Self.type("note", [toVisit]),
            ])
        }

        static func type(
            _ name: String,
            _ relations: [Relation] = [],
            _ visibility: Visibility = .organization,
            isForwarded: Bool = false
        ) -> EntityType {
            EntityType(
                name: name,
                idSpace: .shared,
                relations: relations,
                visibility: visibility,
                defaultPriority: 0,
                isForwarded: isForwarded,
                isInUse: true
            )
        }

        mutating func load(_ type: String, _ id: String, _ document: String?, of owner: Writer = ada) {
            var state = EntityState(
                isIntegerID: false,
                version: 1,
                isDeleted: document == nil,
                document: document.map { Array($0.utf8) },
                owner: owner.user,
                clientID: nil,
                lastWriter: owner,
                runBase: 0
            )
            state.isStored = true
            table.load(EntityKey(type: type, id: id), state)
        }

        /// Loads the entities that refer to an entity, as if the store had found them.
        mutating func refer(_ type: String, _ ids: [String], to target: String, _ id: String) {
            var found = FoundReferrers()
            found.entities = Set(ids.map { EntityKey(type: type, id: $0) })
            table.load(found, of: EntityKey(type: target, id: id))
        }

        @discardableResult
        mutating func write(
            _ operation: SyncModel.Operation,
            _ type: String,
            _ id: String,
            _ payload: String = "",
            by writer: Writer,
            _ strategy: ConflictResolution = .manual
        ) -> BuiltInStore.Result {
            let write = BuiltInStore.Write(
                operation: operation,
                id: ServerID(text: id, isInteger: false),
                clientID: nil,
                payload: Array(payload.utf8),
                baseVersion: nil,
                writer: writer,
                type: Self.type(type, [], type == "visit" ? visibility : .organization),
                conflictResolution: strategy
            )
            return BuiltInStore.apply(write, type: type, index: 3, to: &table)
        }

        func document(_ type: String, _ id: String) -> String? {
            table[EntityKey(type: type, id: id)]?.document.map { String(decoding: $0, as: UTF8.self) }
        }

        var written: [String] { table.writes.map(\.key.id) }
    }

    /// Visit `v` in contact `x`, and contact `y`.
    private func world(_ rule: DeletionRule) -> World {
        var world = World(rule)
        world.load("contact", "x", "{}")
        world.load("contact", "y", "{}")
        world.load("visit", "v", #"{"contactId":"x","n":1}"#)
        world.refer("visit", ["v"], to: "contact", "x")
        return world
    }

    private func detail(_ result: BuiltInStore.Result) throws -> [String?] {
        let error = try JSONTree(parsing: #require(result.error)).root["errors"]?.elements.map(Array.init)?.first
        return [error?["rule"]?.string, error?["pointer"]?.string]
    }

    @Test(arguments: DeletionRule.allCases)
    func `a deletion applies the rule to an entity that got its reference in an update`(_ rule: DeletionRule) throws {
        var world = world(rule)
        #expect(world.write(.update, "visit", "v", #"{"contactId":"y"}"#, by: Self.ada).status == .succeeded)
        let deletion = world.write(.delete, "contact", "y", by: Self.cyd)
        switch rule {
        case .restrict:
            #expect(deletion.status == .conflict)
            #expect(try detail(deletion) == ["entity_must_not_be_referred_to", "/mutations/3"])
            #expect(world.document("contact", "y") == "{}")
            #expect(world.document("visit", "v") == #"{"contactId":"y","n":1}"#)
            #expect(world.written == ["v"])
        case .cascade:
            #expect(deletion.status == .succeeded)
            #expect(world.table[EntityKey(type: "visit", id: "v")]?.isDeleted == true)
            #expect(world.table[EntityKey(type: "visit", id: "v")]?.lastWriter == Self.cyd)
            #expect(world.written == ["v", "y"])
        case .setNull:
            #expect(deletion.status == .succeeded)
            #expect(world.document("visit", "v") == #"{"contactId":null,"n":1}"#)
            #expect(world.table[EntityKey(type: "visit", id: "v")]?.version == 3)
            #expect(world.written == ["v", "y"])
        case .ignore:
            #expect(deletion.status == .succeeded)
            #expect(world.document("visit", "v") == #"{"contactId":"y","n":1}"#)
            #expect(world.written == ["v", "y"])
        }
        // the contact to which the visit no longer refers can be deleted under each rule
        #expect(world.write(.delete, "contact", "x", by: Self.cyd).status == .succeeded)
    }

    @Test(arguments: DeletionRule.allCases)
    func `a write that refers to a deleted entity is a conflict unless the rule ignores it`(_ rule: DeletionRule) throws
    {
        var world = world(rule)
        #expect(world.write(.delete, "contact", "y", by: Self.cyd).status == .succeeded)
        let move = world.write(.update, "visit", "v", #"{"contactId":"y"}"#, by: Self.ada)
        guard rule != .ignore else {
            #expect(move.status == .succeeded)
            return
        }
        #expect(move.status == .conflict && move.responseStatus == 409)
        #expect(try detail(move) == ["entity_reference_must_not_be_deleted", "/mutations/3/payload/contactId"])
        let current = try JSONTree(parsing: #require(move.error)).root["current"]
        #expect(current?["id"]?.string == "v" && current?["document"]?["contactId"]?.string == "x")
        #expect(world.document("visit", "v") == #"{"contactId":"x","n":1}"#)
        // a replacement and a create are checked as well; another target is accepted
        #expect(world.write(.replace, "visit", "v", #"{"contactId":"y"}"#, by: Self.ada).status == .conflict)
        #expect(world.write(.create, "visit", "w", #"{"contactId":"y"}"#, by: Self.ada).status == .conflict)
        #expect(world.write(.create, "visit", "w", #"{"contactId":"x"}"#, by: Self.ada).status == .succeeded)
    }

    @Test func `no strategy overrides a relation`() {
        var world = world(.restrict)
        let toDeleted = #"{"contactId":"y"}"#
        #expect(world.write(.delete, "contact", "x", by: Self.cyd, .clientWins).status == .conflict)
        let discarded = world.write(.delete, "contact", "x", by: Self.cyd, .serverWins)
        #expect(discarded.status == .discarded && discarded.resolution == .serverWins && discarded.version == 1)
        world.write(.delete, "contact", "y", by: Self.cyd)
        #expect(world.write(.update, "visit", "v", toDeleted, by: Self.ada, .clientWins).status == .conflict)
        #expect(world.write(.update, "visit", "v", toDeleted, by: Self.ada, .serverWins).status == .discarded)
        // for a create there is no state of the server that could win
        #expect(world.write(.create, "visit", "w", toDeleted, by: Self.ada, .serverWins).status == .conflict)
    }

    @Test func `a reference that the entity has already is not checked again`() {
        var world = World(.restrict)
        world.load("contact", "y", nil)
        world.load("visit", "v", #"{"contactId":"y"}"#)
        #expect(world.write(.replace, "visit", "v", #"{"contactId":"y","n":2}"#, by: Self.ada).status == .succeeded)
        #expect(world.write(.update, "visit", "v", #"{"n":3}"#, by: Self.ada).status == .succeeded)
    }

    @Test func `a cascade follows the rules of the entities that it deletes, and circles end`() {
        var world = World(.cascade, ofNotes: .setNull)
        world.load("contact", "x", "{}")
        world.load("visit", "v", #"{"contactId":"x"}"#)
        world.load("visit", "w", #"{"contactId":"x"}"#)
        world.load("note", "n", #"{"visitIds":["v","other","w"]}"#)
        world.refer("visit", ["v", "w"], to: "contact", "x")
        world.refer("note", ["n"], to: "visit", "v")
        world.refer("note", ["n"], to: "visit", "w")
        #expect(world.write(.delete, "contact", "x", by: Self.cyd).status == .succeeded)
        #expect(world.document("note", "n") == #"{"visitIds":["other"]}"#)
        #expect(world.table[EntityKey(type: "note", id: "n")]?.version == 2)
        #expect(world.written == ["n", "w", "v", "x"])

        var circle = World(.cascade)
        let relations = ["a", "b"].map {
            Relation(member: $0, entityType: "node", idSpace: .shared, onDelete: .cascade)
        }
        circle.table.relations = EntityRelations(["node": World.type("node", relations)])
        circle.load("node", "1", #"{"a":"2","b":"1"}"#)
        circle.load("node", "2", #"{"a":"1"}"#)
        circle.refer("node", ["2", "1"], to: "node", "1")
        circle.refer("node", ["1"], to: "node", "2")
        #expect(circle.write(.delete, "node", "1", by: Self.cyd).status == .succeeded)
        #expect(circle.written == ["2", "1"])
    }

    @Test func `an entity that the same deletion deletes does not prevent it`() {
        var world = World(.cascade)
        func relation(_ member: String, _ type: String, _ rule: DeletionRule) -> Relation {
            Relation(member: member, entityType: type, idSpace: .shared, onDelete: rule)
        }
        let ofNotes = [relation("visitId", "visit", .cascade), relation("host", "contact", .restrict)]
        world.table.relations = EntityRelations([
            "contact": World.type("contact"),
            "visit": World.type("visit", [relation("contactId", "contact", .cascade)]),
            "note": World.type("note", ofNotes),
        ])
        world.load("contact", "x", "{}")
        world.load("visit", "v", #"{"contactId":"x"}"#)
        world.load("note", "n", #"{"visitId":"v","host":"x"}"#)
        var found = FoundReferrers()
        found.entities = [EntityKey(type: "visit", id: "v"), EntityKey(type: "note", id: "n")]
        world.table.load(found, of: EntityKey(type: "contact", id: "x"))
        world.refer("note", ["n"], to: "visit", "v")
        #expect(world.write(.delete, "contact", "x", by: Self.cyd).status == .succeeded)
        #expect(Set(world.written) == ["x", "v", "n"])
    }

    @Test(arguments: [DeletionRule.cascade, .setNull])
    func `a deletion with too many effects is a conflict and changes nothing`(_ rule: DeletionRule) {
        func deletion(_ count: Int) -> (BuiltInStore.Result, writes: Int) {
            var world = World(rule)
            world.load("contact", "x", "{}")
            let ids = (0..<count).map { "v\($0)" }
            for id in ids { world.load("visit", id, #"{"contactId":"x"}"#) }
            world.refer("visit", ids, to: "contact", "x")
            return (world.write(.delete, "contact", "x", by: Self.cyd), world.table.writes.count)
        }
        let (most, tooMany) = (deletion(Self.bounded), deletion(Self.bounded + 1))
        #expect(most.0.status == .succeeded && most.writes == Self.bounded + 1)
        #expect(tooMany.0.status == .conflict && tooMany.writes == 0)
        var cut = World(rule)
        cut.load("contact", "x", "{}")
        var found = FoundReferrers()
        found.isCut = true
        cut.table.load(found, of: EntityKey(type: "contact", id: "x"))
        #expect(cut.write(.delete, "contact", "x", by: Self.cyd).status == .conflict)
    }

    /// Each grant is a row. A deletion that the database cannot write in time would be tried again without end.
    @Test(arguments: [(DeletionRule.cascade, 49), (.setNull, 24)])
    func `a deletion that ends too many grants is a conflict`(_ rule: DeletionRule, _ most: Int) throws {
        let templates = [try ChannelTemplate("visit/{id}")]
        let grant = ContentGrant(user: "/users", channels: templates, role: .read)
        let users = (0..<200).map { _ in "\"\(UUID().uuidString.lowercased())\"" }.joined(separator: ",")
        for (count, status) in [(most, MutationStatus.succeeded), (most + 1, .conflict)] {
            var world = World(rule, ChannelRules(channels: templates, grants: [grant]))
            world.load("contact", "x", "{}")
            let ids = (0..<count).map { "v\($0)" }
            for id in ids { world.load("visit", id, #"{"contactId":"x","users":[\#(users)]}"#) }
            world.refer("visit", ids, to: "contact", "x")
            #expect(world.write(.delete, "contact", "x", by: Self.cyd).status == status)
            #expect(world.table.writes.count == (status == .succeeded ? count + 1 : 0))
        }
    }

    @Test func `a conflict names no private entity of another user`() throws {
        var world = World(.restrict, visits: .user)
        world.load("contact", "x", "{}")
        world.load("visit", "secret", #"{"contactId":"x"}"#, of: Self.ada)
        world.refer("visit", ["secret"], to: "contact", "x")
        let others = world.write(.delete, "contact", "x", by: Self.cyd)
        #expect(others.status == .conflict)
        #expect(try !String(decoding: #require(others.error), as: UTF8.self).contains("secret"))
        let own = world.write(.delete, "contact", "x", by: Self.ada)
        #expect(try String(decoding: #require(own.error), as: UTF8.self).contains("secret"))
    }

    @Test func `a stored reference that the document no longer has does not prevent a deletion`() {
        var world = world(.restrict)
        world.refer("visit", ["v", "gone"], to: "contact", "y")
        #expect(world.write(.delete, "contact", "y", by: Self.cyd).status == .succeeded)
    }

    @Test func `only relations between types of the built-in store are enforced`() {
        let relation = Relation(member: "contactId", entityType: "contact", idSpace: .shared)
        func enforced(contact: Bool, visit: Bool) -> Bool {
            !EntityRelations([
                "contact": World.type("contact", isForwarded: contact),
                "visit": World.type("visit", [relation], isForwarded: visit),
            ]).isEmpty
        }
        #expect(enforced(contact: false, visit: false))
        #expect(!enforced(contact: true, visit: false) && !enforced(contact: false, visit: true))
        #expect(EntityRelations(["visit": World.type("visit", [relation])]).isEmpty, "the type is not registered")
    }

    @Test func `references are stored with each write, and replaced if they have changed`() throws {
        var world = world(.restrict)
        func visit(_ id: String = "v") throws -> [String] {
            let state = try #require(world.table[EntityKey(type: "visit", id: id)])
            return (state.references?.map(\.target.id) ?? ["none"]) + (state.replacesReferences ? ["replacing"] : [])
        }
        world.write(.update, "visit", "v", #"{"n":2}"#, by: Self.ada)
        #expect(try visit() == ["x"])
        world.write(.update, "visit", "v", #"{"contactId":"y"}"#, by: Self.ada)
        #expect(try visit() == ["y", "replacing"])
        world.write(.update, "visit", "v", #"{"n":3}"#, by: Self.ada)
        #expect(try visit() == ["y", "replacing"], "the stored reference is still that to the first contact")
        world.write(.delete, "visit", "v", by: Self.ada)
        #expect(try visit() == ["replacing"])
        world.write(.create, "visit", "w", #"{"contactId":null}"#, by: Self.ada)
        #expect(try visit("w") == ["replacing"])
    }
}
