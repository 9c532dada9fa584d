import Foundation
import JSONText
import Testing

@testable import SyncModel

@Suite struct PushRequestTests {
    static let device = "11111111-1111-4111-8111-111111111111"
    static let members: [String: String] = [
        "id": #""22222222-2222-4222-8222-222222222222""#,
        "idempotency_key": #""33333333-3333-4333-8333-333333333333""#,
        "sequence_number": "1",
        "operation": #""create""#,
        "entity_type": #""activity""#,
        "local_id": #""44444444-4444-4444-8444-444444444444""#,
        "created_at": #""2026-11-20T07:00:00.000Z""#,
        "payload": #"{"title":"Visit"}"#,
    ]

    static func body(_ changes: [String: String?] = [:], raw: String = "") -> String {
        var members = members
        for (name, value) in changes { members[name] = value }
        let text = members.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",")
        return #"{"device_id":"\#(device)","mutations":[{\#(text)\#(raw)}]}"#
    }

    static func read(_ body: String, limits: IntakeLimits = IntakeLimits()) throws(Problem) -> PushRequest {
        try PushRequest(body: Array(body.utf8), limits: limits)
    }

    /// The problem of the only entry.
    static func problem(_ body: String, limits: IntakeLimits = IntakeLimits()) throws -> Problem? {
        try read(body, limits: limits).entries[0].refusal
    }

    @Test func `parses every member`() throws {
        let push = try Self.read(
            Self.body([
                "endpoint": #""/api/v1/activities/{local_id}?x=1""#, "headers": #"{"accept-language":"nb"}"#,
                "dependency_ids": #"["55555555-5555-4555-8555-555555555555"]"#, "priority": "7", "max_attempts": "3",
                "conflict_resolution": #""client_wins""#, "base_version": "3", "server_id": "null",
            ])
        )
        let mutation = try #require(push.entries[0].mutation)
        #expect(mutation.sequenceNumber == 1)
        #expect(mutation.operation == .create)
        #expect(mutation.endpoint?.text == "/api/v1/activities/{local_id}?x=1")
        #expect(mutation.dependencyIDs.map(\.lowercased) == ["55555555-5555-4555-8555-555555555555"])
        #expect(mutation.priority == 7)
        #expect(mutation.maxAttempts == 3)
        #expect(mutation.conflictResolution == .clientWins)
        #expect(mutation.baseVersion == 3)
        #expect(mutation.createdAt.rfc3339 == "2026-11-20T07:00:00.000Z")
    }

    @Test(arguments: [("POST", SyncModel.Operation.create), ("PATCH", .update), ("PUT", .replace), ("DELETE", .delete)])
    func `an HTTP verb is a synonym`(_ verb: String, _ operation: SyncModel.Operation) throws {
        let push = try Self.read(Self.body(["operation": #""\#(verb)""#]))
        #expect(push.entries[0].mutation?.operation == operation)
    }

    @Test(arguments: [
        ("operation", #""post""#, "operation_must_be_valid_verb"), ("operation", "7", "operation_must_be_valid_verb"),
        ("entity_type", #""Activity""#, "entity_type_valid_enum"), ("entity_type", #""""#, "entity_type_valid_enum"),
        ("entity_type", #""1a""#, "entity_type_valid_enum"), ("local_id", #""x""#, "client_id_uuid_format"),
        ("local_id", "1.5", "client_id_uuid_format"), ("id", #""123""#, "uuid_format"),
        ("id", "null", "member_required"),
        ("idempotency_key", "1", "uuid_format"), ("sequence_number", "0", "sequence_number_must_be_monotonic"),
        ("sequence_number", "-1", "sequence_number_must_be_monotonic"),
        ("sequence_number", "1.5", "sequence_number_must_be_monotonic"),
        ("sequence_number", #""1""#, "sequence_number_must_be_monotonic"),
        ("sequence_number", "9223372036854775808", "sequence_number_must_be_monotonic"),
        ("created_at", #""yesterday""#, "timestamp_rfc3339"), ("created_at", "1", "timestamp_rfc3339"),
        ("server_id", "1.5", "server_id_format"), ("server_id", #""""#, "server_id_format"),
        ("server_id", "[]", "server_id_format"),
        ("priority", "1001", "member_range"), ("priority", "-1", "member_range"), ("max_attempts", "0", "member_range"),
        ("max_attempts", "101", "member_range"), ("base_version", "-1", "member_range"),
        ("conflict_resolution", #""mine""#, "member_type"), ("dependency_ids", "{}", "member_type"),
        ("dependency_ids", #"["x"]"#, "uuid_format"), ("headers", "[]", "member_type"),
        ("headers", #"{"a":1}"#, "member_type"), ("headers", #"{"Authorization":"x"}"#, "header_not_allowed"),
        ("headers", #"{"idempotency-key":"x"}"#, "header_not_allowed"),
        ("headers", #"{"a b":"x"}"#, "header_not_allowed"),
        ("headers", #"{"a":"x\r\ny"}"#, "header_not_allowed"),
        ("headers", #"{"connection":"close"}"#, "header_not_allowed"),
        ("payload", #"{"a":"\u0000"}"#, "payload_must_be_valid_json"),
        ("payload", #"{"a":"\ud800"}"#, "payload_must_be_valid_json"),
        ("payload", #"{"a":1,"\u0061":2}"#, "payload_must_be_valid_json"),
        ("payload", "1e400000", "payload_must_be_valid_json"),
        ("endpoint", "7", "endpoint_must_be_relative_path"), ("unheard_of", "1", "member_unknown"),
    ])
    func `a wrong member refuses its entry with a pointer`(_ member: String, _ value: String, _ rule: String) throws {
        let problem = try #require(try Self.problem(Self.body([member: value])))
        #expect(problem.code == .validationFailed)
        #expect(problem.errors.map(\.rule).contains(rule), "\(problem)")
        #expect(problem.errors.allSatisfy { $0.pointer.hasPrefix("/mutations/0/\(member)") }, "\(problem)")
    }

    @Test(arguments: ["id", "idempotency_key", "sequence_number", "operation", "entity_type", "created_at"])
    func `names a missing member`(_ member: String) throws {
        let problem = try #require(try Self.problem(Self.body([member: String?.none])))
        #expect(problem.errors.map(\.pointer) == ["/mutations/0/\(member)"])
        #expect(problem.errors.map(\.rule) == ["member_required"])
    }

    @Test func `names a duplicate member`() throws {
        let problem = try #require(try Self.problem(Self.body(raw: #","priority":1,"priority":2"#)))
        #expect(problem.errors.map(\.rule) == ["member_duplicate"])
        #expect(problem.errors[0].pointer.contains("priority") || problem.errors[0].detail.contains("priority"))
    }

    /// Defects outside of the mutations are found, however many defects the mutations have.
    @Test func `finds a duplicate member of the envelope after many defects`() throws {
        let doubles = (0..<70).map { #""a\#($0)":1,"a\#($0)":1"# }.joined(separator: ",")
        let device = #""device_id":"\#(Self.device)""#
        let error = #expect(throws: Problem.self) {
            _ = try Self.read("{\(device),\"mutations\":[{\(doubles)}],\(device)}")
        }
        #expect(error?.errors.map(\.pointer) == ["/device_id"])
        #expect(error?.errors.map(\.rule) == ["member_duplicate"])
    }

    @Test func `reports all defects at once`() throws {
        let problem = try #require(try Self.problem(Self.body(["id": "1", "priority": "-1", "x": "1"])))
        #expect(problem.errors.count == 3)
    }

    @Test(arguments: [
        "", "/", "/a", "/a/b?c=d&e=%20", "/a/%2e%2ea", "/a/...", "/{local_id}", "/a.b/c..d", "/a//b", "/a%2Fb",
        "/a%5cb",
        "/a%252fb", "/a;x=1/.b", "/%c3%a6?%c3%28&..", "/100%25/a", "/%25zz", "/a/b;..", "/a?b=%",
    ])
    func `accepts relative paths`(_ path: String) throws {
        let problem = try Self.problem(Self.body(["endpoint": #""\#(path)""#]))
        #expect((problem == nil) == !path.isEmpty)
    }

    @Test(arguments: [
        "a", "//host/a", "http://host/a", "https:a", "/a/../b", "/..", "/.", "/a/./b", "/a/%2e%2e/b", "/a/%2E./b",
        "/a/.%2e", "/a#b", "/a b", #"/a\\b"#, #"/a\nb"#, #"/a\u007f"#, "/a/%2f../b", "/a%5c..", "/a%00",
        "/a%0d%0aHost:x",
        "/a%zz", "/a%2", "?a", "\\\\host", "/api/..;/x", "/..;a=b", "/.;/x", "/api/%252e%252e/x", "/%25252e./x",
        "/a%2f..%2fb", "/%2fhost/x", "/%5chost/x", "/%252fhost", "/..%2500/a", "/..%3fx", "/a/..%23", "/%c3%28",
        "/%c0%ae%c0%ae/x", "/%ff", "/a%7fb",
    ])
    func `refuses paths that could leave the base URL`(_ path: String) throws {
        let problem = try #require(try Self.problem(Self.body(["endpoint": #""\#(path)""#])))
        #expect(problem.errors.map(\.rule) == ["endpoint_must_be_relative_path"])
        #expect(problem.errors.map(\.pointer) == ["/mutations/0/endpoint"])
    }

    @Test(arguments: [
        ("/%c3%28", "endpoint is not UTF-8 once it is decoded"), ("/..;/x", "endpoint has a '.' or '..' segment"),
        ("/%252e%252e", "endpoint has a '.' or '..' segment"),
        ("/a%2", "endpoint has a '%' without two hex digits after it"),
        ("/a%0a", "endpoint has an encoded control character"),
        ("/%2fx", "endpoint names a host once it is decoded: '//'"),
    ])
    func `refuses a path for the correct reason`(_ path: String, _ detail: String) throws {
        let problem = try #require(try Self.problem(Self.body(["endpoint": #""\#(path)""#])))
        #expect(problem.errors.map(\.detail) == [detail])
    }

    /// For any depth of encoding, decoding takes one pass.
    @Test func `decodes a path of escapes in one pass`() {
        let deep = "/%" + String(repeating: "25", count: 1_000) + "2e%2e"
        #expect(PathRules.problem(in: deep) == "has a '.' or '..' segment")
        #expect(PercentEncoding.fullyDecoded(deep.utf8) == Array("/..".utf8))
        #expect(PercentEncoding.fullyDecoded("%%32%65.%".utf8) == Array("..%".utf8))
    }

    @Test func `a payload beyond its limits is its entry's problem`() throws {
        var limits = IntakeLimits()
        limits.payloadBytes = 20
        #expect(try Self.problem(Self.body(["payload": #"{"a":"0123456789abcdef"}"#]), limits: limits) != nil)
        let deep = { (levels: Int) in String(repeating: "[", count: levels) + String(repeating: "]", count: levels) }
        #expect(try Self.problem(Self.body(["payload": deep(64)])) == nil)
        // the last one has the maximum depth of a body
        for levels in [65, 509] {
            let problem = try Self.problem(Self.body(["payload": deep(levels)]))
            #expect(problem?.errors.map(\.pointer) == ["/mutations/0/payload"])
        }
    }

    @Test(arguments: [
        ("", ProblemCode.invalidJSON), ("{", .invalidJSON), ("[]", .invalidRequest), ("nul", .invalidJSON),
        ("{}", .invalidRequest),
        (#"{"device_id":"x","mutations":[]}"#, .invalidRequest),
        (#"{"device_id":null,"mutations":[]}"#, .invalidRequest),
        (#"{"device_id":"11111111-1111-4111-8111-111111111111"}"#, .invalidRequest),
        (#"{"device_id":"11111111-1111-4111-8111-111111111111","mutations":{}}"#, .invalidRequest),
        (#"{"device_id":"11111111-1111-4111-8111-111111111111","mutations":[],"more":1}"#, .invalidRequest),
        (#"{"device_id":"11111111-1111-4111-8111-111111111111","mutations":[],"after_sequence":-1}"#, .invalidRequest),
        (#"{"device_id":"11111111-1111-4111-8111-111111111111","mutations":[],"mutations":[]}"#, .invalidRequest),
    ])
    func `a wrong envelope refuses the whole push`(_ body: String, _ code: ProblemCode) {
        let problem = #expect(throws: Problem.self) { try Self.read(body) }
        #expect(problem?.code == code)
    }

    @Test func `too many mutations or bytes refuse the whole push`() {
        var limits = IntakeLimits()
        limits.mutations = 0
        #expect(#expect(throws: Problem.self) { try Self.read(Self.body(), limits: limits) }?.code == .payloadTooLarge)
        limits = IntakeLimits()
        limits.bodyBytes = 100
        #expect(#expect(throws: Problem.self) { try Self.read(Self.body(), limits: limits) }?.code == .payloadTooLarge)
    }

    @Test func `bytes that are not UTF-8 are not JSON`() {
        let problem = #expect(throws: Problem.self) {
            try PushRequest(body: Array(#"{"device_id":""#.utf8) + [0xff, 0x22, 0x7d], limits: IntakeLimits())
        }
        #expect(problem?.code == .invalidJSON)
    }
}
