import Foundation
import JSONText
import SyncModel
import Testing

/// `POST /v1/id-mappings/lookup`
@Suite struct ReadingMappingsTests {
    private static func body(_ ids: [UUID], type: String? = nil) -> String {
        let type = type.map { #","entity_type":"\#($0)""# } ?? ""
        return #"{"client_ids":[\#(ids.map(\.quoted).joined(separator: ","))]\#(type)}"#
    }

    /// The results of a look-up, by client id and type.
    private static func states(_ reply: Reply) -> [String: String] {
        let pairs = reply.mappings.map { mapping in
            let server = mapping["server_id"].map { $0.string ?? $0.text } ?? "-"
            let key = "\(mapping["client_id"]?.string ?? "-") \(mapping["entity_type"]?.string ?? "-")"
            return (key, "\(mapping["status"]?.string ?? "-") \(server)")
        }
        return Dictionary(pairs) { "\($0), \($1)" }
    }

    @Test func `returns resolved and pending mappings and omits unknown ids`() async throws {
        let fixture = try await TwoTenantFixture()
        let (first, second, pending, unknown) = (UUID(), UUID(), UUID(), UUID())
        let reply = try await fixture.ada.push([
            fixture.ada.create("task", local: first), fixture.ada.create("note", local: second),
        ])
        let servers = reply.results.map { $0["server_id"]?.string ?? "-" }
        try await Self.halt(fixture, server: servers[0])
        _ = try await fixture.ada.push([fixture.ada.create("task", local: pending)])

        let found = try await fixture.ada.post("/v1/id-mappings/lookup", Self.body([first, unknown, second, pending]))
        #expect(found.status == 200)
        #expect(found.json?.names == ["id_mappings"])
        #expect(found.mappings.allSatisfy { $0.names == ["entity_type", "client_id", "server_id", "status"] })
        #expect(
            Self.states(found) == [
                "\(first.lowercased) task": "resolved \(servers[0])",
                "\(second.lowercased) note": "resolved \(servers[1])",
                "\(pending.lowercased) task": "pending null",
            ]
        )
        let narrowed = try await fixture.ada.post("/v1/id-mappings/lookup", Self.body([first, second], type: "note"))
        #expect(Self.states(narrowed) == ["\(second.lowercased) note": "resolved \(servers[1])"])
        let none = try await fixture.ada.post("/v1/id-mappings/lookup", Self.body([unknown]))
        #expect(none.status == 200)
        #expect(none.text == #"{"id_mappings":[]}"#)
    }

    /// Creates a manual conflict, so that no later mutation of the lane runs.
    private static func halt(_ fixture: TwoTenantFixture, server: String) async throws {
        _ = try await fixture.bob.push([fixture.bob.change(server: server)])
        let reply = try await fixture.ada.push([fixture.ada.change(server: server, base: 1)])
        #expect(reply.statuses == ["conflict"])
    }

    @Test func `accepts ids in upper and lower case and returns repeated ids once`() async throws {
        let fixture = try await TwoTenantFixture()
        let local = UUID()
        _ = try await fixture.ada.push([fixture.ada.create("task", local: local)])
        let body = #"{"client_ids":["\#(local.uuidString)",\#(local.quoted)],"entity_type":null}"#
        let reply = try await fixture.ada.post("/v1/id-mappings/lookup", body)
        #expect(reply.mappings.map { $0["client_id"]?.string } == [local.lowercased])
    }

    @Test func `a client id may identify entities of two types`() async throws {
        let fixture = try await TwoTenantFixture()
        let local = UUID()
        let pushed = try await fixture.ada.push([
            fixture.ada.create("task", local: local), fixture.ada.create("note", local: local),
        ])
        #expect(pushed.statuses == ["succeeded", "succeeded"])
        let reply = try await fixture.ada.post("/v1/id-mappings/lookup", Self.body([local]))
        #expect(Set(Self.states(reply).keys) == ["\(local.lowercased) task", "\(local.lowercased) note"])
        #expect(Set(reply.mappings.compactMap { $0["server_id"]?.string }).count == 2)
    }

    @Test func `looks up a thousand ids and rejects more ids`() async throws {
        let fixture = try await TwoTenantFixture()
        let ids = (0..<1_000).map { _ in UUID() }
        _ = try await fixture.ada.push([fixture.ada.create("task", local: ids[999])])
        let reply = try await fixture.ada.post("/v1/id-mappings/lookup", Self.body(ids))
        #expect(reply.mappings.count == 1)
        expectProblem(
            try await fixture.ada.post("/v1/id-mappings/lookup", Self.body(ids + [UUID()])),
            .invalidRequest,
            errors: ["/client_ids member_range"]
        )
    }

    @Test func `names the invalid members of a look-up's body`() async throws {
        let fixture = try await TwoTenantFixture()
        let id = UUID().quoted
        let cases: [(String, ProblemCode, [String])] = [
            ("", .invalidJSON, []),
            ("{", .invalidJSON, []),
            (#"{"client_ids":[\#(id)]}x"#, .invalidJSON, []),
            ("[\(id)]", .invalidRequest, [" member_type"]),
            ("null", .invalidRequest, [" member_type"]),
            ("{}", .invalidRequest, ["/client_ids member_required"]),
            (#"{"client_ids":null}"#, .invalidRequest, ["/client_ids member_type"]),
            (#"{"client_ids":\#(id)}"#, .invalidRequest, ["/client_ids member_type"]),
            (#"{"client_ids":[\#(id),1.5]}"#, .invalidRequest, ["/client_ids/1 client_id_uuid_format"]),
            (#"{"client_ids":[\#(id),1]}"#, .invalidRequest, ["/device_id member_required"]),
            (#"{"client_ids":["x"]}"#, .invalidRequest, ["/client_ids/0 client_id_uuid_format"]),
            (#"{"client_ids":[[\#(id)]]}"#, .invalidRequest, ["/client_ids/0 client_id_uuid_format"]),
            (#"{"client_ids":[\#(id)],"client_ids":[\#(id)]}"#, .invalidRequest, ["/client_ids member_duplicate"]),
            (#"{"client_ids":[\#(id)],"user_id":\#(id)}"#, .invalidRequest, ["/user_id member_unknown"]),
            (#"{"client_ids":[\#(id)],"a/~b":1}"#, .invalidRequest, ["/a~1~0b member_unknown"]),
            (
                #"{"client_ids":[\#(id)],"entity_type":"Task"}"#, .invalidRequest,
                ["/entity_type entity_type_valid_enum"]
            ),
            (#"{"client_ids":[\#(id)],"entity_type":1}"#, .invalidRequest, ["/entity_type entity_type_valid_enum"]),
            (
                #"{"client_ids":[\#(id)],"entity_type":"a\u0000"}"#, .invalidRequest,
                ["/entity_type member_type"]
            ),
        ]
        let tables = try await fixture.tables()
        for (body, code, errors) in cases {
            expectProblem(try await fixture.ada.post("/v1/id-mappings/lookup", body), code, errors: errors)
        }
        expectProblem(
            try await fixture.ada.post("/v1/id-mappings/lookup?x=1", Self.body([UUID()])),
            .invalidRequest,
            errors: [" parameter_unknown"]
        )
        expectProblem(
            try await fixture.ada.post(
                "/v1/id-mappings/lookup",
                Self.body([UUID()]),
                headers: [("Content-Type", "text/plain")]
            ),
            .unsupportedMediaType
        )
        #expect(try await fixture.tables() == tables)
    }
}
