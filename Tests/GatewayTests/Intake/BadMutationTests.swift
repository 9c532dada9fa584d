import Foundation
import JSONText
import SyncHTTP
import SyncModel
import Testing

/// Pushes with an invalid entry. Strict pushes are rejected as a whole, and the problem has the same pointers as the
/// entry's result in a lenient push.
@Suite struct BadMutationTests {
    private static let required = [
        "id", "idempotency_key", "sequence_number", "operation", "entity_type", "created_at",
    ]

    /// Expects that each draft is rejected with exactly these errors, in a strict push and after a valid entry of a
    /// lenient push.
    private static func expectRefused(
        _ fixture: TwoTenantFixture,
        _ cases: [(Draft, [String])],
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        try await fixture.whileNothingChanges(sourceLocation: sourceLocation) {
            for (draft, errors) in cases {
                let good = fixture.ada.create()
                let reply = try await fixture.ada.push([good, draft], prefer: "handling=strict")
                expectProblem(reply, .validationFailed, sourceLocation: sourceLocation)
                #expect(
                    Set(reply.errors) == Set(errors.map { "/mutations/1" + $0 }),
                    "\(draft.json.prefix(500))\n\(reply.text)",
                    sourceLocation: sourceLocation
                )
            }
        }
    }

    /// A create with one member replaced.
    private static func draft(_ fixture: TwoTenantFixture, _ member: String, _ value: String?) -> Draft {
        var draft = fixture.ada.create()
        draft[member] = value
        return draft
    }

    @Test func `rejects missing and null values of required members`() async throws {
        let fixture = try await TwoTenantFixture()
        let cases = Self.required.flatMap { name in
            [nil, "null"].map { (Self.draft(fixture, name, $0), ["/\(name) member_required"]) }
        }
        try await Self.expectRefused(fixture, cases)
        var nothing = fixture.ada.create()
        nothing.members = [:]
        try await Self.expectRefused(fixture, [(nothing, Self.required.map { "/\($0) member_required" })])
    }

    @Test func `rejects entries that are not objects`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.whileNothingChanges {
            for entry in ["1", "null", "[]", "\"x\""] {
                let body = #"{"device_id":\#(fixture.ada.device.quoted),"mutations":[\#(entry)]}"#
                let reply = try await fixture.ada.post("/v1/mutations", body, headers: [("Prefer", "handling=strict")])
                expectProblem(reply, .validationFailed, errors: ["/mutations/0 member_type"])
            }
        }
    }

    @Test func `checks types, formats and bounds of members`() async throws {
        let fixture = try await TwoTenantFixture()
        let long = String(repeating: "a", count: 65)
        let wrong: [(String, String, [String])] = [
            ("id", "uuid_format", ["1", "\"x\"", "\"{\(UUID().lowercased)}\"", "true", "[]"]),
            ("idempotency_key", "uuid_format", ["\"\"", "\"\(UUID().lowercased) \"", "{}", "7"]),
            (
                "sequence_number", "sequence_number_must_be_monotonic",
                ["0", "-1", "1.5", "\"1\"", "9223372036854775808", "1e400", "[]"]
            ),
            ("operation", "operation_must_be_valid_verb", ["\"destroy\"", "\"\"", "1", "\"GET\""]),
            (
                "entity_type", "entity_type_valid_enum",
                ["\"Task\"", "\"\"", "\"\(long)\"", "\"a b\"", "\"é\"", "\"1a\"", "\"_a\"", "1"]
            ),
            ("local_id", "client_id_uuid_format", ["\"x\"", "\"\"", "5", "true"]),
            (
                "server_id", "server_id_format",
                ["\"\"", "\"\(String(repeating: "x", count: 201))\"", "1.5", "true", "{}"]
            ),
            ("priority", "member_range", ["-1", "1001", "\"1\"", "1.5", "true"]),
            ("max_attempts", "member_range", ["0", "101", "\"1\"", "1e1000"]),
            ("conflict_resolution", "member_type", ["\"merge\"", "\"Manual\"", "1"]),
            ("base_version", "member_range", ["-1", "\"1\"", "0.1", "9223372036854775808"]),
            (
                "created_at", "timestamp_rfc3339",
                [
                    "\"yesterday\"", "1763449200", "\"2026-11-18\"", "\"2026-13-01T00:00:00Z\"",
                    "\"2026-11-18T07:00:00\"",
                ]
            ),
            ("dependency_ids", "member_type", ["{}", "\"x\"", "1"]),
            ("headers", "member_type", ["[]", "\"x\"", "1"]),
        ]
        var cases = wrong.flatMap { member, rule, values in
            values.map { (Self.draft(fixture, member, $0), ["/\(member) \(rule)"]) }
        }
        // these values are invalid, and the database could not store them
        for (member, rule) in [
            ("operation", "operation_must_be_valid_verb"), ("entity_type", "entity_type_valid_enum"),
        ] {
            cases.append(
                (Self.draft(fixture, member, "\"a\\u0000\""), ["/\(member) \(rule)", "/\(member) member_type"])
            )
        }
        try await Self.expectRefused(fixture, cases)
    }

    @Test func `rejects endpoints that could leave the base URL`() async throws {
        let fixture = try await TwoTenantFixture()
        let endpoints = [
            "", "x", "api/tasks", "//host/x", "http://host/x", "https:/x", "/a/../b", "/..", "/a/%2e%2e/b", "/a/.%2E",
            "/%2E%2e", "/a\\b", "/a\\\\b", "/a%5c..", "/a/..;/b", "/%252e%252e/b", "/%c3%28", "/a#b", "/a\\nb",
            "/a\\u0001", "/a\\u007f", "/a b",
        ].map { "\"\($0)\"" }
        let cases = (endpoints + ["1", "{}"]).map {
            (Self.draft(fixture, "endpoint", $0), ["/endpoint endpoint_must_be_relative_path"])
        }
        try await Self.expectRefused(fixture, cases)
    }

    @Test func `rejects headers that belong to the gateway or the connection`() async throws {
        let fixture = try await TwoTenantFixture()
        let owned = [
            "host", "Host", "authorization", "Cookie", "content-length", "idempotency-key", "Connection", "keep-alive",
            "te", "trailer", "transfer-encoding", "upgrade", "proxy-authorization", "x y", "", "a:b",
        ]
        var cases = owned.map {
            (Self.draft(fixture, "headers", "{\"\($0)\":\"x\"}"), ["/headers/\($0) header_not_allowed"])
        }
        // a header that is not allowed, headers that other servers obey, and another spelling of the gateway's own
        for name in [
            "x-app", "X-HTTP-Method-Override", "X-Original-URL", "Forwarded", "x_forwarded_for", "X_Sluice_User",
        ] {
            cases.append(
                (Self.draft(fixture, "headers", "{\"\(name)\":\"x\"}"), ["/headers/\(name) header_not_allowed"])
            )
        }
        for value in ["a\\r\\nb", "\\u0001", "\\u007f", String(repeating: "x", count: 4_097)] {
            cases.append((Self.draft(fixture, "headers", "{\"x\":\"\(value)\"}"), ["/headers/x header_not_allowed"]))
        }
        cases.append((Self.draft(fixture, "headers", "{\"x\":1}"), ["/headers/x member_type"]))
        let twice = #"{"accept":"a","Accept":"b"}"#
        cases.append((Self.draft(fixture, "headers", twice), ["/headers/Accept header_not_allowed"]))
        let many = (0..<33).map { "\"x\($0)\":\"\"" }.joined(separator: ",")
        cases.append((Self.draft(fixture, "headers", "{\(many)}"), ["/headers member_range"]))
        try await Self.expectRefused(fixture, cases)
    }

    @Test func `rejects payloads that cannot be stored or are ambiguous`() async throws {
        let fixture = try await TwoTenantFixture { $0.limits.payloadBytes = 1_000_000 }
        let digits = String(repeating: "9", count: 131_073)
        let payloads: [(String, String)] = [
            (#"{"a":{"b":["x","\u0000"]}}"#, "/a/b/1"), (#"{"a\u0000":1}"#, "/a\0"),
            (#"{"a":"\ud800"}"#, "/a"), (#"{"a":"\udc00\ud800"}"#, "/a"), (#"{"a":{"b":1,"b":2}}"#, "/a/b"),
            (#"{"a":1,"\u0061":1}"#, "/a"), (#"{"a":\#(digits)}"#, "/a"), (#"{"a":1e131072}"#, "/a"),
            (#"{"a":1e-16384}"#, "/a"), ("[1]", ""), ("\"x\"", ""), ("1", ""),
            (#"{"a":"\#(String(repeating: "x", count: 1_000_000))"}"#, ""),
            ("{\"a\":" + String(repeating: "[", count: 64) + String(repeating: "]", count: 64) + "}", ""),
        ]
        try await Self.expectRefused(
            fixture,
            payloads.map { (Self.draft(fixture, "payload", $0), ["/payload\($1) payload_must_be_valid_json"]) }
        )
        let fine = "{\"a\":" + String(repeating: "[", count: 63) + String(repeating: "]", count: 63) + "}"
        let numbers = #"{"a":1e131071,"b":1e-16383,"c":"\ud83d\ude00","d":-0.0,"e":12345678901234567890.10}"#
        let drafts = [fine, numbers].map { Self.draft(fixture, "payload", $0) }
        #expect(try await fixture.ada.push(drafts).statuses == ["succeeded", "succeeded"])
        let documents = try await fixture.bob.get("/v1/changes").changes.compactMap { $0["document"]?.text }
        #expect(documents.suffix(2) == [fine, numbers])
    }

    @Test func `names unknown and repeated members`() async throws {
        let fixture = try await TwoTenantFixture()
        var cases = ["user_id", "organization_id", "status", "Id"].map {
            (Self.draft(fixture, $0, "null"), ["/\($0) member_unknown"])
        }
        cases.append((Self.draft(fixture, "a/b~", "1"), ["/a~1b~0 member_unknown"]))
        cases.append((Self.draft(fixture, "\\u0069d", UUID().quoted), ["/id member_duplicate"]))
        var several = fixture.ada.create()
        several["colour"] = "1"
        several["priority"] = "1001"
        several["operation"] = nil
        cases.append((several, ["/colour member_unknown", "/priority member_range", "/operation member_required"]))
        try await Self.expectRefused(fixture, cases)
    }

    @Test func `requires a reference to an entity`() async throws {
        let fixture = try await TwoTenantFixture()
        let unknown = UUID().quoted
        let cases: [(Draft, [String])] = [
            (Self.draft(fixture, "local_id", nil), ["/local_id client_id_uuid_format"]),
            (Self.draft(fixture, "local_id", "null"), ["/local_id client_id_uuid_format"]),
            (fixture.ada.draft("update", "task", ["payload": "{}"]), ["/local_id member_required"]),
            (
                fixture.ada.draft("update", "task", ["payload": "{}", "local_id": unknown]),
                ["/local_id entity_reference_must_exist"]
            ),
            (fixture.ada.draft("delete", "task", ["local_id": unknown]), ["/local_id entity_reference_must_exist"]),
            (
                Self.draft(fixture, "dependency_ids", "[\(unknown)]"),
                ["/dependency_ids/0 dependency_ids_must_exist_in_queue"]
            ),
            (Self.draft(fixture, "dependency_ids", "[1]"), ["/dependency_ids/0 uuid_format"]),
        ]
        try await Self.expectRefused(fixture, cases)
    }

    @Test func `rejects entries without an identity, stores none of them and accepts others`() async throws {
        let fixture = try await TwoTenantFixture()
        var nameless = fixture.ada.create()
        nameless["idempotency_key"] = "\"x\""
        nameless["id"] = "7"
        nameless["sequence_number"] = "\"1\""
        let good = fixture.ada.create()
        let entries = ["1", "{}", nameless.json, good.json].joined(separator: ",")
        let body = #"{"device_id":\#(fixture.ada.device.quoted),"mutations":[\#(entries)]}"#
        let reply = try await fixture.ada.post("/v1/mutations", body)
        #expect(reply.status == 200)
        #expect(reply.statuses == ["rejected", "rejected", "rejected", "succeeded"])
        for result in reply.results.prefix(3) {
            #expect(result.names == PushOverHTTPTests.resultMembers)
            for name in ["id", "idempotency_key", "sequence_number"] {
                #expect(result.value(at: "/" + name)?.isNull == true, "\(name)")
            }
            #expect(result.errorCode == "validation_failed")
        }
        #expect(reply.json?["accepted_sequence"]?.int64 == 2, "only the valid entry has a readable number")
        #expect(try await fixture.tables()["rejections"]?.hasPrefix("0 ") == true)
        #expect(try await fixture.ada.get("/v1/mutations").mutations.count == 1)
    }

    @Test func `repeats the rejection of an entry until the entry is corrected`() async throws {
        let fixture = try await TwoTenantFixture()
        var bad = fixture.ada.create()
        bad["payload"] = #"{"a":"\u0000"}"#
        let first = try await fixture.ada.push([bad])
        #expect(first.status == 200)
        #expect(first.statuses == ["rejected"])
        #expect(first.json?["accepted_sequence"]?.int64 == 1)
        #expect(first.results[0]["error"]?.errors == ["/mutations/0/payload/a payload_must_be_valid_json"])
        let again = try await fixture.ada.push([bad])
        #expect(again.results[0]["replayed"]?.bool == true)
        #expect(again.results[0]["error"]?.text == first.results[0]["error"]?.text)
        bad["payload"] = #"{"a":"0"}"#
        bad["sequence_number"] = "2"
        let corrected = try await fixture.ada.push([bad])
        #expect(corrected.statuses == ["succeeded"])
        #expect(corrected.results[0]["replayed"]?.bool == false)
    }
}
