import Foundation
import JSONText
import Testing

@testable import SyncModel

/// Entities in channels that refer to each other (product rules 24 and 27).
@Suite struct ChannelRelationTests {
    private static let (ada, owner) = (Writer(user: UUID(), device: UUID()), Writer(user: UUID(), device: UUID()))
    private static let lead = EntityKey(type: "case", id: "x")
    private static let contact = EntityKey(type: "contact", id: "c")

    private static func id(_ channel: String) -> ChannelID { ChannelID(named: channel) }

    private static func type(_ name: String, _ relations: [Relation] = []) throws -> EntityType {
        var type = EntityType(
            name: name,
            idSpace: .shared,
            relations: relations,
            visibility: .channels,
            defaultPriority: 0,
            isForwarded: false,
            isInUse: true
        )
        let template = name == "case" ? "team/{/team}" : "case/{/caseId}"
        type.channels = ChannelRules(channels: [try ChannelTemplate(template)])
        return type
    }

    private let types: [ByteExactString: EntityType]
    private var table: EntityTable

    /// Case `x` of team `a`, to which contact `c` refers.
    private init(_ rule: DeletionRule, _ channels: [String]) throws {
        let relation = Relation(member: "caseId", entityType: "case", idSpace: .shared, onDelete: rule)
        types = ["case": try Self.type("case"), "contact": try Self.type("contact", [relation])]
        table = EntityTable(types.compactMapValues(\.channelRules))
        table.relations = EntityRelations(types)
        for channel in channels { table.access.load(Self.ada.user, Self.id(channel), .write, from: "operator") }
        load(Self.lead, #"{"team":"a"}"#, in: "team/a", at: 3)
        load(Self.contact, #"{"caseId":"x","n":1}"#, in: "case/x", at: 4)
        var found = FoundReferrers()
        found.entities = [Self.contact]
        table.load(found, of: Self.lead)
    }

    /// For the test runner; each test makes its own world.
    init() throws { try self.init(.restrict, []) }

    private mutating func load(_ key: EntityKey, _ document: String?, in channel: String, at position: Int64) {
        var state = EntityState(
            isIntegerID: false,
            version: 1,
            isDeleted: document == nil,
            document: document.map { Array($0.utf8) },
            owner: Self.owner.user,
            clientID: nil,
            lastWriter: Self.owner,
            runBase: 0
        )
        state.isStored = true
        state.channels = [Self.id(channel)]
        state.stored = StoredPlace(position: position, channels: state.channels)
        table.load(key, state)
    }

    private mutating func write(
        _ operation: SyncModel.Operation,
        _ key: EntityKey,
        _ payload: String = ""
    ) throws -> BuiltInStore.Result {
        let write = BuiltInStore.Write(
            operation: operation,
            id: ServerID(text: key.id, isInteger: false),
            clientID: nil,
            payload: Array(payload.utf8),
            baseVersion: nil,
            writer: Self.ada,
            type: try #require(types[ByteExactString(key.type)]),
            conflictResolution: .manual
        )
        return BuiltInStore.apply(write, type: key.type, index: 0, to: &table)
    }

    @Test func `a cascade deletes entities that the user cannot see, in their channels`() throws {
        var world = try Self(.cascade, ["team/a"])
        #expect(try world.write(.delete, Self.lead).status == .succeeded)
        let writes = Dictionary(uniqueKeysWithValues: world.table.writes.map { ($0.key, $0.state) })
        #expect(writes[Self.contact]?.isDeleted == true && writes[Self.lead]?.isDeleted == true)
        #expect(writes[Self.contact]?.stays.moved == [Self.id("case/x")], "users who saw the contact get its tombstone")
        #expect(writes[Self.lead]?.stays.moved == [Self.id("team/a")])
    }

    @Test func `a reference that is set to null moves the entity out of its channel`() throws {
        var world = try Self(.setNull, ["team/a"])
        #expect(try world.write(.delete, Self.lead).status == .succeeded)
        let contact = try #require(world.table.writes.first { $0.key == Self.contact }?.state)
        #expect(contact.document.map { String(decoding: $0, as: UTF8.self) } == #"{"caseId":null,"n":1}"#)
        #expect(contact.stays.left == [Self.id("case/x")] && contact.channels == [])
    }

    @Test func `a restriction names only entities that the user sees`() throws {
        for (channels, isNamed) in [(["team/a"], false), (["team/a", "case/x"], true)] {
            var world = try Self(.restrict, channels)
            let result = try world.write(.delete, Self.lead)
            #expect(result.status == .conflict && world.table.writes.isEmpty)
            #expect(result.lastError?.contains("'contact' c refers") == isNamed, "\(result.lastError ?? "-")")
        }
    }

    @Test func `grants are checked before relations`() throws {
        for (role, code) in [(ChannelRole?.none, 204), (.read, 403)] as [(ChannelRole?, Int16)] {
            var world = try Self(.restrict, [])
            if let role { world.table.access.load(Self.ada.user, Self.id("team/a"), role, from: "operator") }
            #expect(try world.write(.delete, Self.lead).responseStatus == code)
            #expect(world.table.writes.isEmpty)
        }
    }

    @Test func `a reference to a hidden tombstone is treated like one to an unknown id`() throws {
        for (channels, status) in [(["case/x"], MutationStatus.succeeded), (["case/x", "team/a"], .conflict)] {
            var world = try Self(.restrict, channels)
            world.load(EntityKey(type: "case", id: "y"), nil, in: "team/a", at: 5)
            #expect(try world.write(.update, Self.contact, #"{"caseId":"y"}"#).status == status, "\(channels)")
        }
    }
}
