import Foundation
import JSONText
import Testing

@testable import SyncModel

@Suite struct EntityRoutesTests {
    private static let collection = #"{"collection":"/contacts"}"#
    private static let graphQL = """
        {"create": {"method": "POST", "path": "/graphql", "id_pointer": "/data/c/id", "document_pointer": "/data/c",
            "body": {"query": "mutation($i: In!) { c: create(i: $i) { id } }", "variables": {"i": {"$": "payload"}}},
            "outcomes": [{"status": 200, "where": [{"pointer": "/errors", "exists": true}], "then": "failed"}]},
         "update": {"method": "POST", "path": "/graphql", "body": {"variables": {"id": {"$": "id"}, "i": {"$": "payload"}}}},
         "delete": {"method": "POST", "path": "/graphql", "body": {"variables": {"id": {"$": "id"}}}}}
        """

    private static func errors(_ json: String) throws -> [ProblemDetail] {
        var errors: [ProblemDetail] = []
        _ = EntityRoutes(try JSONTree(parsing: Array(json.utf8)).root, at: "/routes", &errors)
        return errors
    }

    private static func sample(_ operation: SyncModel.Operation, _ routes: String, endpoint: String? = nil) -> Sample {
        var sample = Sample.of(operation)
        (sample.routes, sample.endpoint) = (routes, endpoint)
        return sample
    }

    private static func line(_ sample: Sample) -> String? {
        sample.request.map { request in
            let body = request.body.map { String(decoding: $0, as: UTF8.self) }
            return "\(request.method) \(request.path) \(body ?? "-")"
        }
    }

    @Test func `a collection has the usual four routes`() {
        let lines = SyncModel.Operation.allCases.map { Self.line(Self.sample($0, Self.collection)) }
        #expect(
            lines == [
                #"POST /contacts {"name":"Kari"}"#, #"PATCH /contacts/7 {"name":"Kari"}"#,
                #"PUT /contacts/7 {"name":"Kari"}"#, "DELETE /contacts/7 -",
            ]
        )
    }

    @Test func `an operation may have another route than the collection's, or none`() {
        let routes = #"{"collection":"/contacts","update":{"method":"PUT","path":"/c/{id}"},"replace":null}"#
        #expect(Self.line(Self.sample(.update, routes)) == #"PUT /c/7 {"name":"Kari"}"#)
        #expect(Self.line(Self.sample(.delete, routes)) == "DELETE /contacts/7 -")
        #expect(Self.line(Self.sample(.replace, routes)) == nil)
    }

    @Test func `a mutation's own endpoint comes first, unless the type ignores it`() {
        #expect(Self.line(Self.sample(.delete, Self.collection, endpoint: "/old/{local_id}")) == "DELETE /old/7 -")
        let ignoring = #"{"collection":"/contacts","endpoint":"ignore"}"#
        #expect(Self.line(Self.sample(.delete, ignoring, endpoint: "/old/{local_id}")) == "DELETE /contacts/7 -")
    }

    @Test(arguments: [IDSpace.mapped, .device])
    func `a create never sends the client's own id as the server id (rule 20)`(_ idSpace: IDSpace) throws {
        var sample = Self.sample(.create, #"{"create":{"method":"PUT","path":"/contacts/{id}"}}"#)
        sample.idSpace = idSpace
        if idSpace == .device { sample.client = LocalID(entityType: "contact", number: 1).name(on: Sample.device) }
        guard case .fail(let outcome) = sample.decision() else { throw Missing() }
        #expect(outcome.code == "validation_failed" && outcome.attemptCount == 0)
        sample.routes = #"{"create":{"path":"/graphql","body":{"id":{"$":"id"},"in":{"$":"payload"}}}}"#
        #expect(Self.line(sample) == #"POST /graphql {"in":{"name":"Kari"}}"#)
    }

    private struct Missing: Error {}

    @Test(arguments: [
        (#"{"create":{"method":"PUT","path":"/x/{id}"}}"#, "/routes/create/path"),
        (#"{"create":{"path":"/x","body":[{"a":{"$":"id"}}]}}"#, "/routes/create/body"),
    ]) func `a create contains its id only if the client chooses the id`(_ json: String, _ pointer: String) throws {
        let routes = EntityRoutes(stored: try JSONTree(parsing: Array(json.utf8)).root)
        #expect(routes.problem(in: .device)?.pointer == pointer && routes.problem(in: .mapped)?.pointer == pointer)
        #expect(routes.problem(in: .shared) == nil)
        let usual = EntityRoutes(stored: try JSONTree(parsing: Array(Self.collection.utf8)).root)
        #expect(usual.problem(in: .device) == nil)
    }

    @Test func `client ids are replaced by server ids before a path is made from the payload`() {
        var sample = Self.sample(.create, #"{"create":{"path":"/lists/{/list}/items"}}"#)
        let list = UUID()
        sample.payload = #"{"list":"\#(list.lowercased)"}"#
        sample.references = [list]
        sample.mappings = [list: [.init(entityType: "list", serverID: ServerID(text: "a/b", isInteger: false))]]
        #expect(Self.line(sample) == #"POST /lists/a%2Fb/items {"list":"a/b"}"#)
    }

    /// A body that contains a text of the payload 500 times.
    private static func multiplied(textBytes: Int) -> Sample {
        let items = Array(repeating: #"{"$":"/n"}"#, count: 500).joined(separator: ",")
        var sample = Self.sample(.create, #"{"create":{"path":"/x","body":{"items":[\#(items)]}}}"#)
        sample.payload = #"{"n":"\#(String(repeating: "n", count: textBytes))"}"#
        return sample
    }

    @Test func `a body that a template multiplies fails the mutation if it is too large`() throws {
        #expect(try #require(Self.multiplied(textBytes: 16_000).request).bodyBytes ?? 0 > 8_000_000)
        guard case .fail(let outcome) = Self.multiplied(textBytes: 17_000).decision() else { throw Missing() }
        #expect(outcome.status == .failed && outcome.code == "validation_failed" && outcome.attemptCount == 0)
        #expect(outcome.detail?.contains("more than 8388608 bytes") == true)
    }

    @Test(arguments: [
        (#"{"a":[{"$":"/n"},{"$":"/none"}],"b":{"$":"/none"}}"#, true), (#"{"$":"payload"}"#, true),
        (#"[{"$":"id"},{"$":"id"},{"$":"payload"},{"$":"/n"}]"#, true), (#""text""#, true),
        (#"{"$":"/none"}"#, false),
    ]) func `the bytes of a body are known before it is rendered`(_ body: String, _ exists: Bool) throws {
        var sample = Self.sample(.update, #"{"update":{"path":"/x","body":\#(body)}}"#)
        sample.payload = #"{"n":"\#(String(repeating: "n", count: 90_000))"}"#
        let request = try #require(sample.request)
        #expect((request.body != nil) == exists && (request.bodyBytes != nil) == exists)
        let (bytes, bound) = (request.body?.count ?? 0, request.bodyBytes ?? 0)
        #expect(bytes <= bound && bound - bytes < BodyTemplate.maximumBytes)
    }

    @Test func `a preview of the sent request contains no body that is too large for an answer`() {
        for (textBytes, isShown) in [(1_000, true), (16_000, false)] {
            let sample = Self.multiplied(textBytes: textBytes)
            let preview = ReplayPreview(of: sample.mutation, sample.surroundings, now: Sample.now)
            #expect((preview != nil) == isShown)
        }
    }

    @Test func `a value that would lead the path elsewhere fails the mutation, and nothing is sent`() {
        var sample = Self.sample(.create, #"{"create":{"path":"/lists/{/list}/items"}}"#)
        for value in ["..", "%2e%2e", ".;x", ""] {
            sample.payload = #"{"list":"\#(value)"}"#
            guard case .fail(let outcome) = sample.decision() else {
                Issue.record("\(value) was sent")
                continue
            }
            #expect(outcome.status == .failed && outcome.code == "validation_failed" && outcome.attemptCount == 0)
        }
    }

    @Test func `id, document and errors of a GraphQL answer are read as the route specifies`() throws {
        let create = Self.sample(.create, Self.graphQL)
        let done = try #require(create.outcome(200, #"{"data":{"c":{"id":"x1","name":"Kari"}}}"#))
        #expect(done.status == .succeeded && done.serverID?.text == "x1")
        #expect(done.document == #"{"id":"x1","name":"Kari"}"#)
        let failed = try #require(create.outcome(200, #"{"errors":[{}],"data":null}"#))
        #expect(failed.status == .failed && failed.detail?.contains("/routes/create/outcomes/0") == true)
    }

    @Test func `the feed stores the payload, not the body that a route makes of it`() throws {
        let update = try #require(Self.sample(.update, Self.graphQL).outcome(200, "{}"))
        #expect(update.patch == #"{"name":"Kari"}"# && update.serverID?.text == "7")
        let delete = try #require(Self.sample(.delete, Self.graphQL).outcome(200, "{}"))
        if case .deleted = delete.entity {} else { Issue.record("the entity was not deleted") }
        // the answer to a path without the id is not about the entity
        let elsewhere = Self.sample(.update, #"{"update":{"path":"/touch"}}"#)
        let outcome = try #require(elsewhere.outcome(200, "{}"))
        #expect(outcome.patch == nil && outcome.document == nil)
    }

    @Test func `client_wins sends the route again, and a whole document by the route of replace`() throws {
        var update = Self.sample(.update, Self.collection)
        update.strategy = .clientWins
        let conflict = try #require(update.outcome(412, #"{"id":7,"name":"Ola","age":3}"#))
        #expect(conflict.kind == .overridden && conflict.override?.endpoint == nil)
        #expect(Self.line(update.after(conflict)) == #"PUT /contacts/7 {"id":7,"name":"Kari","age":3}"#)
        // without a route of replace, a create waits for a person
        var create = Self.sample(.create, Self.graphQL)
        create.strategy = .clientWins
        #expect(create.outcome(409, #"{"data":{"c":{"id":"x1"}}}"#)?.status == .conflict)
        var known = Self.sample(.create, Self.collection)
        known.strategy = .clientWins
        let overridden = try #require(known.outcome(409, #"{"id":9}"#, location: "/contacts/9"))
        #expect(Self.line(known.after(overridden)) == #"PUT /contacts/9 {"name":"Kari"}"#)
    }

    @Test(arguments: [
        ("[]", "/routes", "object"), (#"{"collection":"contacts"}"#, "/routes/collection", "start with one '/'"),
        (#"{"collection":"/contacts/"}"#, "/routes/collection", "no slash"),
        (#"{"collection":"/contacts?x=1"}"#, "/routes/collection", "no query"),
        (#"{"collection":"/../contacts"}"#, "/routes/collection", "'..'"),
        (#"{"updat":{"path":"/x"}}"#, "/routes/updat", "'update' meant"),
        (#"{"update":{}}"#, "/routes/update/path", "has a path"),
        (#"{"update":{"path":"/x/{y}"}}"#, "/routes/update/path", "use {id}"),
        (#"{"update":{"path":"/x","method":"GET"}}"#, "/routes/update/method", "POST, PUT"),
        (#"{"update":{"path":"/x","id_pointer":""}}"#, "/routes/update/id_pointer", "JSON Pointer"),
        (#"{"update":{"path":"/x","document_pointer":"d"}}"#, "/routes/update/document_pointer", "JSON Pointer"),
        (#"{"update":{"path":"/x","body":{"a":{"$":"b"}}}}"#, "/routes/update/body/a", "payload"),
        (
            #"{"update":{"path":"/x","outcomes":[{"status":500,"then":"failed"}]}}"#,
            "/routes/update/outcomes/0/status", "condition"
        ),
        (#"{"endpoint":"always"}"#, "/routes/endpoint", "ignore"),
    ]) func `refuses routes with their place`(_ json: String, _ pointer: String, _ words: String) throws {
        let found = try Self.errors(json)
        #expect(found.first?.pointer == pointer && found.first?.detail.contains(words) == true, "\(found)")
    }

    // MARK: - Pauses

    @Test func `nothing is sent to a paused upstream, and no attempt is spent`() throws {
        var sample = Sample.of(.update)
        sample.upstream?.pause = UpstreamPause()
        guard case .hold(let until) = sample.decision() else { return #expect(Bool(false), "it was sent") }
        #expect(until == Sample.now.adding(seconds: 30))
        sample.upstream?.pause = UpstreamPause(until: Sample.now.adding(seconds: 5))
        guard case .hold(let end) = sample.decision() else { return #expect(Bool(false), "it was sent") }
        #expect(end == Sample.now.adding(seconds: 5))
        sample.upstream?.pause = UpstreamPause(until: Sample.now)
        #expect(sample.request != nil)
    }
}
