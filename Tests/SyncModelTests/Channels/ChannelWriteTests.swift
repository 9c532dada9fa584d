import Foundation
import JSONText
import Testing

@testable import SyncModel

/// The table of product rule 27.
@Suite struct ChannelWriteTests {
    private static let key = EntityKey(type: "visit", id: "7")
    private let user = UUID()
    private let owner = UUID()
    private let rules: ChannelRules

    init() throws { rules = ChannelRules(channels: [try ChannelTemplate("team/{/team}")]) }

    private func table(_ role: ChannelRole?, on channel: String = "team/a") -> EntityTable {
        var table = EntityTable([ByteExactString("visit"): rules])
        if let role { table.access.load(user, ChannelID(named: channel), role, from: GrantSource.operator.text) }
        return table
    }

    private func stored(isDeleted: Bool = false) -> EntityState {
        var state = EntityState(
            isIntegerID: true,
            version: 1,
            isDeleted: isDeleted,
            document: isDeleted ? nil : Array(#"{"team":"a"}"#.utf8),
            owner: owner,
            clientID: nil,
            lastWriter: Writer(user: owner, device: UUID()),
            runBase: 0
        )
        state.isStored = true
        state.channels = [ChannelID(named: "team/a")]
        state.stored = StoredPlace(position: 3, channels: state.channels)
        return state
    }

    private func write(_ operation: SyncModel.Operation, _ payload: String, into table: inout EntityTable)
        -> BuiltInStore.Result
    {
        var type = EntityType(
            name: "visit",
            idSpace: .shared,
            visibility: .channels,
            defaultPriority: 0,
            isForwarded: false,
            isInUse: true
        )
        type.channels = rules
        let write = BuiltInStore.Write(
            operation: operation,
            id: ServerID(7),
            clientID: nil,
            payload: Array(payload.utf8),
            baseVersion: nil,
            writer: Writer(user: user, device: UUID()),
            type: type,
            conflictResolution: .manual
        )
        return BuiltInStore.apply(write, type: "visit", index: 0, to: &table)
    }

    @Test(arguments: [SyncModel.Operation.update, .replace, .delete])
    func `a write needs a grant to write`(operation: SyncModel.Operation) {
        for (role, status) in [(nil, operation == .delete ? 204 : 404), (.read, 403), (.write, nil)]
            as [(ChannelRole?, Int16?)]
        {
            var table = table(role)
            table.load(Self.key, stored())
            let result = write(operation, #"{"team":"b"}"#, into: &table)
            #expect(result.status == (role == nil && operation != .delete || role == .read ? .failed : .succeeded))
            if let status { #expect(result.responseStatus == status) }
            #expect(table.writes.count == (role == .write ? 1 : 0))
        }
    }

    @Test func `a decision about a user with many channels names those that were not read`() {
        let (held, other) = (ChannelID(named: "team/a"), ChannelID(named: "team/b"))
        var table = table(.write)
        table.load(Self.key, stored())
        table.access.leaveOut(user)
        let copy = table
        #expect(table.access.unread.isEmpty, "nothing was decided")
        #expect(write(.update, #"{"team":"b"}"#, into: &table).responseStatus == 404)
        #expect(copy.access.unread == [user: [held]])
        // again, with that channel
        table = copy
        table.access.load(user, held, .write, from: GrantSource.operator.text)
        table.access.note(read: [held], of: user)
        #expect(table.access.unread.isEmpty)
        #expect(write(.update, #"{"team":"b"}"#, into: &table).status == .succeeded)
        #expect(write(.update, "{}", into: &table).responseStatus == 404)
        #expect(table.access.unread == [user: [other]], "the next one depends on the new channel")
        table.access.note(read: nil, of: user)
        #expect(table.access.unread.isEmpty, "all were read")
    }

    @Test func `a create needs a grant to write to a channel of its document`() {
        for (role, channel, isDone) in [(.write, "team/a", true), (.read, "team/a", false), (.write, "team/b", false)]
            as [(ChannelRole, String, Bool)]
        {
            var table = table(role, on: channel)
            let result = write(.create, #"{"team":"a"}"#, into: &table)
            #expect(result.status == (isDone ? .succeeded : .failed))
            #expect(result.responseStatus == (isDone ? 201 : 403))
        }
    }

    @Test func `a hidden id is answered like an unknown one`() {
        for payload in [#"{"team":"b"}"#, #"{"team":"a"}"#] {
            var (known, unknown) = (table(nil), table(nil))
            known.load(Self.key, stored())
            for operation in [SyncModel.Operation.create, .update, .replace, .delete] {
                let (first, second) = (
                    write(operation, payload, into: &known), write(operation, payload, into: &unknown)
                )
                #expect(first.error == second.error && first.version == second.version, "\(operation)")
                #expect(first.responseStatus == second.responseStatus)
            }
        }
    }

    @Test func `a write moves the entity's stays`() throws {
        var table = table(.write)
        table.load(Self.key, stored())
        _ = write(.update, #"{"team":["a","b"]}"#, into: &table)
        let first = try #require(table.writes.first?.state.stays)
        #expect(first.moved == [ChannelID(named: "team/a")] && first.joined == [ChannelID(named: "team/b")])
        _ = write(.update, #"{"team":"b"}"#, into: &table)
        let second = try #require(table.writes.first?.state.stays)
        #expect(second.left == [ChannelID(named: "team/a")] && second.joined == [ChannelID(named: "team/b")])
        #expect(write(.update, #"{"title":"x"}"#, into: &table).responseStatus == 404, "it left the user's channels")
    }

    @Test func `a tombstone stays in its channels, and the first evaluation ends the former visibility`() throws {
        var table = table(.write)
        table.load(Self.key, stored())
        _ = write(.delete, "", into: &table)
        #expect(table.writes.first?.state.stays.moved == [ChannelID(named: "team/a")])
        var former = stored()
        (former.channels, former.stored) = (nil, StoredPlace(position: 3, channels: nil))
        var rules = rules
        for (visibility, channel) in [(.organization, .everyone), (.user, .of(user: owner))]
            as [(Visibility, ChannelID)]
        {
            rules.former = visibility
            let placed = former.placed(by: rules, Self.key)
            #expect(placed.stays.left == [channel] && placed.stays.joined == [ChannelID(named: "team/a")])
        }
    }

    @Test func `a deleted entity and a type without channels end grants`() throws {
        var deleted = stored()
        (deleted.isDeleted, deleted.document) = (true, nil)
        #expect(deleted.placed(by: rules, Self.key).grants == [])
        #expect(stored().placed(by: nil, Self.key).grants == [])
        #expect(stored().placed(by: nil, Self.key).stays.left == [ChannelID(named: "team/a")])
        #expect(stored().placed(by: rules, Self.key).grants == nil, "the type's rules make no grants")
    }

    @Test func `a grant by an entity's document opens its channel to later mutations`() throws {
        var rules = rules
        rules.grants = [ContentGrant(user: "/lead", channels: [try ChannelTemplate("team/{/team}")], role: .write)]
        var table = EntityTable([ByteExactString("visit"): rules])
        table.access.load(user, ChannelID(named: "team/a"), .read, from: "operator")
        table.load(Self.key, stored())
        #expect(write(.update, "{}", into: &table).responseStatus == 403)
        var next = stored()
        next.document = Array(#"{"team":"a","lead":"\#(user.uuidString)"}"#.utf8)
        table.write(Self.key, next)
        #expect(write(.update, #"{"lead":null}"#, into: &table).responseStatus == 200)
        #expect(write(.update, "{}", into: &table).responseStatus == 403, "the grant ended with the write")
    }

    @Test func `a grant to a subject opens its channel to the user of this subject`() throws {
        var rules = rules
        let subject = Subject(issuer: "https://id.example", text: "auth0|ada")
        rules.grants = [
            ContentGrant(
                user: "/lead",
                issuer: subject.issuer,
                channels: [try ChannelTemplate("team/{/team}")],
                role: .write
            )
        ]
        for (name, status) in [(subject, 200), (Subject(issuer: "", text: subject.text), 404)] as [(Subject, Int16)] {
            var table = EntityTable([ByteExactString("visit"): rules])
            table.load(Self.key, stored())
            table.access.note(name, of: user)
            var next = stored()
            next.document = Array(#"{"team":"a","lead":"auth0|ada"}"#.utf8)
            table.write(Self.key, next)
            #expect(write(.update, #"{"title":"x"}"#, into: &table).responseStatus == status)
        }
    }

    @Test func `grants that change count, and two that last count as one`() throws {
        var rules = rules
        rules.grants = [
            ContentGrant(user: "/lead", channels: [try ChannelTemplate("g/{/groups}")], role: .read)
        ]
        func entity(_ groups: Range<Int>) -> EntityState {
            var state = stored()
            let names = groups.map { "\"\($0)\"" }.joined(separator: ",")
            state.document = Array(#"{"team":"a","lead":"\#(user.uuidString)","groups":[\#(names)]}"#.utf8)
            return state
        }
        var table = EntityTable([ByteExactString("visit"): rules])
        table.load(Self.key, entity(0..<20))
        table.write(Self.key, entity(0..<20))
        #expect(table.channelChanges == ChannelChanges(grants: 10, stays: 1))
        table.write(Self.key, entity(4..<25))
        #expect(table.channelChanges == ChannelChanges(grants: 4 + 5 + 8, stays: 1), "compared with the first state")
        table.write(Self.key, entity(0..<0))
        #expect(table.channelChanges == ChannelChanges(grants: 20, stays: 1))
        let new = EntityKey(type: "visit", id: "new")
        var state = entity(0..<3)
        state.stored = nil
        (state.isStored, state.channels) = (false, nil)
        table.write(new, state)
        #expect(table.channelChanges == ChannelChanges(grants: 23, stays: 2))
    }

    @Test func `stays that begin, move and end count once for each entity`() {
        var table = table(.write)
        table.load(Self.key, stored())
        _ = write(.update, #"{"team":["a","b","c"]}"#, into: &table)
        #expect(table.channelChanges.stays == 3, "one moves, and two begin")
        _ = write(.update, #"{"team":["b"]}"#, into: &table)
        #expect(table.channelChanges.stays == 2, "one ends, and one begins")
    }
}
