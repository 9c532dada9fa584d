import Foundation
import JSONText
import SyncModel
import Testing

/// A device's own ids when a mutation that references them runs (specification 002, docs/spec).
@Suite struct DeviceIDDispatchTests {
    private static let folder = LocalID(entityType: "folder", number: 23).clientID(on: Sample.device)
    private static let relations = [
        Relation(member: "folderId", entityType: "folder", idSpace: .device),
        Relation(member: "tags", entityType: "tag", idSpace: .device),
        Relation(member: "parent", entityType: "contact", idSpace: .device),
        Relation(member: "owner", entityType: "person", idSpace: .mapped),
    ]

    /// A create by the number 47, or a change of its entity.
    private func sample(_ operation: SyncModel.Operation, _ payload: String) -> Sample {
        var sample = Sample.of(operation)
        sample.client = LocalID(entityType: "contact", number: 47).name(on: Sample.device)
        sample.payload = payload
        sample.idSpace = .device
        sample.relations = Self.relations
        return sample
    }

    private func know(_ type: String, _ number: Int64, _ id: ServerID, in sample: inout Sample) {
        let client = LocalID(entityType: type, number: number).clientID(on: Sample.device)
        sample.references.append(client)
        sample.mappings[client] = [DispatchPlanner.ResolvedID(entityType: type, serverID: id)]
    }

    private func body(_ sample: Sample) -> String? { sample.request?.body.map { String(decoding: $0, as: UTF8.self) } }

    private func refusal(_ sample: Sample) -> (code: String?, pointer: String?, detail: String?)? {
        guard case .fail(let outcome) = sample.decision() else { return nil }
        #expect(outcome.status == .failed && outcome.attemptCount == 0 && outcome.lastError == outcome.detail)
        let error = outcome.error.flatMap { try? JSONTree(parsing: $0).root }
        return (outcome.code, error?["errors"]?.elements.map(Array.init)?.first?["pointer"]?.string, outcome.detail)
    }

    @Test(arguments: [
        (ServerID(text: "9", isInteger: true), "9"), (ServerID(text: "9", isInteger: false), #""9""#),
        (ServerID(text: "fold/1", isInteger: false), #""fold/1""#),
    ])
    func `numbers in relations become server IDs in their form`(_ id: ServerID, _ json: String) {
        var sample = sample(
            .create,
            #"{ "text":"Broccoli", "folderId":23, "n":23, "tags":[1,null,"given",2], "x":{"folderId":23}, "owner":23 }"#
        )
        know("folder", 23, id, in: &sample)
        know("tag", 1, ServerID(text: "100", isInteger: true), in: &sample)
        know("tag", 2, ServerID(text: "t-2", isInteger: false), in: &sample)
        #expect(
            body(sample)
                == #"{ "text":"Broccoli", "folderId":\#(json), "n":23, "tags":[100,null,"given","t-2"], "#
                + #""x":{"folderId":23}, "owner":23 }"#
        )
    }

    @Test func `null references nothing`() {
        #expect(body(sample(.create, #"{"folderId":null,"tags":[]}"#)) == #"{"folderId":null,"tags":[]}"#)
    }

    @Test func `also replaces the UUIDs of other types`() {
        let person = UUID(uuid: (9, 9, 9, 9, 9, 9, 0x49, 9, 0x89, 9, 9, 9, 9, 9, 9, 9))
        var sample = sample(.create, #"{"owner":"\#(person.uuidString)","folderId":23,"also":"\#(person.uuidString)"}"#)
        know("folder", 23, ServerID(text: "1", isInteger: true), in: &sample)
        sample.references.append(person)
        sample.mappings[person] = [
            DispatchPlanner.ResolvedID(entityType: "person", serverID: ServerID(text: "p", isInteger: false))
        ]
        #expect(body(sample) == #"{"owner":"p","folderId":1,"also":"p"}"#)
    }

    @Test func `a number without a server ID is neither sent nor stored`() throws {
        for isForwarded in [true, false] {
            var sample = sample(.create, #"{"tags":[1,2]}"#)
            sample.isForwarded = isForwarded
            know("tag", 1, ServerID(text: "100", isInteger: true), in: &sample)
            // the number 2 of another type, and of another device
            know("folder", 2, ServerID(text: "5", isInteger: true), in: &sample)
            let other = LocalID(entityType: "tag", number: 2).clientID(on: Sample.id)
            sample.mappings[other] = [
                DispatchPlanner.ResolvedID(entityType: "tag", serverID: ServerID(text: "6", isInteger: true))
            ]
            let found = try #require(refusal(sample))
            #expect(found.code == "dependency_rejected" && found.pointer == "/payload/tags/1")
            #expect(found.detail == "/payload/tags/1 contains local id 2 in 'tag', which has no server id")
        }
    }

    @Test func `an entity may reference itself`() throws {
        var change = sample(.update, #"{"parent":47}"#)
        #expect(body(change) == #"{"parent":7}"#)
        change.isForwarded = false
        guard case .builtIn(let payload)? = change.dispatch?.destination else {
            Issue.record("not run")
            return
        }
        #expect(payload == Array(#"{"parent":7}"#.utf8))
        // an upstream assigns the id only after the create is sent
        let create = sample(.create, #"{"parent":47}"#)
        let found = try #require(refusal(create))
        #expect(found.code == "dependency_rejected" && found.pointer == "/payload/parent")
    }

    @Test func `the built-in store keeps a create's reference to itself`() throws {
        var create = sample(.create, #"{"parent":47,"folderId":23}"#)
        create.isForwarded = false
        // a server id that equals one of the device's numbers
        know("folder", 23, ServerID(text: "47", isInteger: true), in: &create)
        let dispatch = try #require(create.dispatch)
        guard case .builtIn(let payload) = dispatch.destination else {
            Issue.record("not run")
            return
        }
        var entities = EntityTable()
        let (outcome, version) = dispatch.applied(to: &entities, payload: payload)
        #expect(outcome.status == .succeeded && version == 1)
        let made = try #require(outcome.serverID?.uuid)
        let stored = try #require(entities[EntityKey(type: "contact", id: made.lowercased)])
        #expect(stored.document == Array(#"{"parent":"\#(made.lowercased)","folderId":47}"#.utf8))
        #expect(stored.clientID == nil)
    }

    @Test func `the feed has no client ID for an entity that an upstream created`() throws {
        let create = sample(.create, #"{"text":"x"}"#)
        var outcome = try #require(create.outcome(201, #"{"id":5}"#))
        var entities = EntityTable()
        _ = outcome.enterFeed(of: try #require(create.dispatch), &entities)
        let stored = try #require(entities[EntityKey(type: "contact", id: "5")])
        #expect(stored.clientID == nil && stored.document == Array(#"{"id":5}"#.utf8))
    }

    @Test func `the endpoint contains the number until there is a server ID`() {
        var create = sample(.create, "{}")
        create.endpoint = "/contacts/{local_id}"
        #expect(create.request?.path == "/contacts/47")
        create.client = LocalID(entityType: "contact", number: .min).name(on: Sample.device)
        #expect(create.request?.path == "/contacts/-9223372036854775808")
        var change = sample(.update, "{}")
        change.serverID = nil
        know("contact", 47, ServerID(text: "c/7", isInteger: false), in: &change)
        #expect(change.request?.path == "/contacts/c%2F7")
    }

    @Test func `a change of an unresolvable entity fails`() throws {
        var change = sample(.update, "{}")
        change.serverID = nil
        #expect(try #require(refusal(change)).code == "dependency_rejected")
    }

    @Test func `a create resolved with client_wins references itself by the overwritten entity's ID`() {
        var create = sample(.create, #"{"parent":47}"#)
        create.serverID = ServerID(text: "8", isInteger: true)
        // a create that met an existing entity has an id only if it overwrites that entity
        #expect(refusal(create) != nil)
        create.override = SentRequest(method: "PUT", endpoint: "/contacts/8")
        #expect(body(create) == #"{"parent":8}"#)
    }

    /// A merged document also contains server ids, so only placeholders of numbers are replaced.
    @Test func `client_wins sends a document with the IDs that were missing before`() throws {
        var change = sample(.update, #"{"folderId":23,"tags":[2]}"#)
        know("folder", 23, ServerID(text: "9", isInteger: true), in: &change)
        know("tag", 2, ServerID(text: "2", isInteger: true), in: &change)
        let stray = LocalID(entityType: "tag", number: 3).clientID(on: Sample.device).lowercased
        change.override = SentRequest(
            method: "PUT",
            payload: Array(#"{"parent":23,"folderId":"\#(Self.folder.lowercased)","tags":[2],"x":"\#(stray)"}"#.utf8)
        )
        #expect(body(change) == #"{"parent":23,"folderId":9,"tags":[2],"x":"\#(stray)"}"#)
        change.mappings[Self.folder] = nil
        #expect(try #require(refusal(change)).pointer == "/payload/folderId")
    }
}
