import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// Settings of an upstream: rules about answers, routes, pauses and rates.
@Suite struct UpstreamContractTests {
    private static func upstream(_ fixture: TwoTenantFixture) async throws -> String {
        let path = fixture.admin + "/upstream"
        let made = try await fixture.operate(.PUT, path, #"{"base_url":"http://127.0.0.1:1"}"#)
        #expect(made.status == 201)
        return path
    }

    @Test func `outcome rules are replaced as a whole, and invalid rules are refused by pointer`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = try await Self.upstream(fixture)
        let rules = #"[{"then":"failed","where":[{"is":false,"pointer":"/ok"}],"status":"2xx","message":"/why"}]"#
        let set = try await fixture.operate(.PUT, path, #"{"outcomes":\#(rules)}"#)
        #expect(set.status == 200 && set.json?.value(at: "/outcomes/0/message")?.string == "/why")
        let read = try await fixture.operate(.GET, path)
        #expect(read.json?.value(at: "/outcomes/0/where/0/is")?.bool == false)
        #expect(try await fixture.operate(.PUT, path, "{}").json?["outcomes"]?.elements?.count == 1)
        let wrong = #"{"outcomes":[{"status":200,"then":"failed"},{"status":200,"then":"retry"}]}"#
        expectProblem(
            try await fixture.operate(.PUT, path, wrong),
            .validationFailed,
            errors: ["/outcomes/1 member_range"]
        )
        let reset = try await fixture.operate(.PUT, path, #"{"outcomes":null}"#)
        #expect(reset.json?["outcomes"]?.elements?.isEmpty == true)
    }

    @Test func `a pause ends at its set time, or when an operator ends it`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = try await Self.upstream(fixture)
        let end = fixture.gateway.clock.now.adding(seconds: 60).rfc3339
        let paused = try await fixture.operate(.PUT, path, #"{"status":"paused","paused_until":"\#(end)"}"#)
        #expect(paused.json?["status"]?.string == "paused" && paused.json?["paused_until"]?.string == end)
        let endless = try await fixture.operate(.PUT, path, #"{"paused_until":null}"#)
        #expect(endless.json?["status"]?.string == "paused" && endless.json?["paused_until"]?.isNull == true)
        let resumed = try await fixture.operate(.PUT, path, #"{"status":"active"}"#)
        #expect(resumed.json?["status"]?.string == "active")
        let timed = try await fixture.operate(.PUT, path, #"{"paused_until":"\#(end)"}"#)
        #expect(timed.json?["status"]?.string == "paused")
        fixture.gateway.clock.advance(seconds: 61)
        let over = try await fixture.operate(.GET, path)
        #expect(over.json?["status"]?.string == "active" && over.json?["paused_until"]?.isNull == true)
        for (body, error) in [
            (#"{"paused_until":"\#(end)"}"#, "/paused_until member_range"),
            (#"{"status":"active","paused_until":"2999-01-01T00:00:00Z"}"#, "/paused_until member_range"),
            (#"{"status":"off"}"#, "/status member_range"),
            (#"{"paused_until":"tomorrow"}"#, "/paused_until timestamp_rfc3339"),
            (#"{"requests_per_second":0}"#, "/requests_per_second member_range"),
        ] {
            expectProblem(try await fixture.operate(.PUT, path, body), .validationFailed, errors: [error])
        }
        let limited = try await fixture.operate(.PUT, path, #"{"requests_per_second":50}"#)
        #expect(limited.json?["requests_per_second"]?.int64 == 50)
    }

    @Test func `batches require the order by dependencies, a valid path and a valid size`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = try await Self.upstream(fixture)
        let batch = #"{"batch":{"path":"/$batch","max_requests":50}}"#
        expectProblem(
            try await fixture.operate(.PUT, path, batch),
            .validationFailed,
            errors: ["/batch member_range"]
        )
        let ordered = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"order":"dependencies"}}"#)
        #expect(ordered.status == 200)
        let set = try await fixture.operate(.PUT, path, batch)
        #expect(set.json?.value(at: "/batch/path")?.string == "/$batch")
        #expect(set.json?.value(at: "/batch/max_requests")?.int64 == 50)
        for (body, error) in [
            (#"{"batch":{"path":"/../x"}}"#, "/batch/path member_range"),
            (#"{"batch":{"path":"//other.example"}}"#, "/batch/path member_range"),
            (#"{"batch":{"path":"/{id}"}}"#, "/batch/path member_range"),
            (#"{"batch":{"path":"/b","max_requests":1}}"#, "/batch/max_requests member_range"),
            (#"{"batch":{"max_requests":10}}"#, "/batch/path member_required"),
        ] {
            expectProblem(try await fixture.operate(.PUT, path, body), .validationFailed, errors: [error])
        }
        for order in [#""lane""#, "null"] {
            expectProblem(
                try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"order":\#(order)}}"#),
                .validationFailed,
                errors: ["/settings/order member_range"]
            )
        }
        let reset = try await fixture.operate(.PUT, path, #"{"batch":null}"#)
        #expect(reset.json?["batch"]?.isNull == true)
        #expect(try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"order":"lane"}}"#).status == 200)
    }

    @Test func `a probe shows whether the upstream supports batches`() async throws {
        let (fixture, api) = (try await TwoTenantFixture(), try await DemoServer.start())
        let path = fixture.admin + "/upstream"
        let ordered = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"order":"dependencies"}}"#)
        #expect(ordered.status == 200)
        func probe(_ batch: String) async throws -> JSONValue? {
            let settings = #"{"base_url":"\#(api.baseURL)","batch":{"path":"\#(batch)"}}"#
            #expect([200, 201].contains(try await fixture.operate(.PUT, path, settings).status))
            return try await fixture.operate(.POST, path + "/test", #"{"batch":true,"path":"/contacts"}"#).json
        }
        let taken = try await probe("/$batch")
        #expect(taken?.value(at: "/batch/supported")?.bool == true, "\(taken?.text ?? "-")")
        #expect(taken?.value(at: "/sent/method")?.string == "POST")
        let refused = try await probe("/nothing/here/at/all")
        #expect(refused?.value(at: "/batch/supported")?.bool == false, "\(refused?.text ?? "-")")
        let status = try #require(refused?["status"]?.int64)
        let detail = refused?.value(at: "/batch/detail")?.string ?? ""
        #expect(detail.hasPrefix("the upstream does not support batches: it answered \(status)"))
        let plain = try await fixture.operate(.POST, path + "/test", #"{"path":"/contacts"}"#)
        #expect(plain.json?["batch"]?.isNull == true)
    }

    @Test func `an import of a YAML document prints routes and relations, and sets them only with --apply`()
        async throws
    {
        let fixture = try await TwoTenantFixture()
        _ = try await Self.upstream(fixture)
        let file = FileManager.default.temporaryDirectory.appending(path: "\(UUID()).yaml")
        defer { try? FileManager.default.removeItem(at: file) }
        let text = """
            openapi: 3.1.0
            paths:
              /contacts: {post: {}}
              /orders:
                post:
                  requestBody:
                    content:
                      application/json:
                        schema: {properties: {contact_id: {type: string}, shop_id: {type: string}}}
              /shops: {post: {}}
            """
        try text.write(to: file, atomically: true, encoding: .utf8)
        let organization = try #require(fixture.admin.split(separator: "/").last.map(String.init))
        func run(_ words: String...) async throws -> Program.Result {
            let environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri]
            return try await Program.run(["upstream", "import", organization] + words, environment: environment)
        }
        let type = fixture.admin + "/entity-types/order"
        let proposed = try await run(file.path)
        #expect(proposed.status == 0, "\(proposed.complaint)")
        #expect(proposed.output.contains("  relation: contact_id refers to contact\n"), "\(proposed.output)")
        #expect(proposed.output.contains("nothing was set; use --apply to set 3 entity types"))
        #expect(try await fixture.operate(.GET, type).status == 404)
        let known = try await fixture.operate(.PUT, type, #"{"relations":{"shop_id":"store","userId":"person"}}"#)
        #expect(known.status == 201)
        let applied = try await run(file.path, "--apply", "--json", "--type", "order")
        #expect(applied.status == 0, "\(applied.complaint)")
        let json = try JSONTree(parsing: Array(applied.output.utf8)).root
        #expect(json["applied"]?.bool == true)
        #expect(json.value(at: "/entity_types/order/relations/contact_id")?.string == "contact")
        let remarks = json.value(at: "/entity_types/order/remarks")?.elements?.compactMap(\.string) ?? []
        #expect(remarks.contains("shop_id keeps its relation to store"), "\(remarks)")
        let set = try await fixture.operate(.GET, type).json
        #expect(
            set?.value(at: "/routes/create/path")?.string ?? set?.value(at: "/routes/collection")?.string == "/orders"
        )
        let relations = set?["relations"]?.members?.map { "\($0.name.string) \($0.value.string ?? "-")" }.sorted()
        #expect(relations == ["contact_id contact", "shop_id store", "userId person"])
        try Data("paths: {a: 1, a: 2}".utf8).write(to: file)
        let wrong = try await run(file.path)
        #expect(
            wrong.status == 1 && wrong.complaint.contains("the key a occurs twice in a mapping, at line 1, column 15")
        )
        try Data(repeating: 0x20, count: 50_000_000).write(to: file)
        #expect(try await run(file.path).complaint.contains("has more than 16777216 bytes"))
    }

    @Test func `a type with routes takes mutations without an endpoint`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await Self.upstream(fixture)
        let type = fixture.admin + "/entity-types/contact"
        let made = try await fixture.operate(.PUT, type, #"{"routes":{"collection":"/contacts","delete":null}}"#)
        #expect(made.status == 201 && made.json?.value(at: "/routes/collection")?.string == "/contacts")
        #expect(try await fixture.operate(.PUT, type, "{}").json?.value(at: "/routes/delete")?.isNull == true)
        expectProblem(
            try await fixture.operate(.PUT, type, #"{"routes":{"create":{"path":"/../x"}}}"#),
            .validationFailed,
            errors: ["/routes/create/path endpoint_must_be_relative_path"]
        )
        #expect(try await fixture.operate(.PUT, type, #"{"routes":null}"#).json?["routes"]?.isNull == true)
        let ownID = #""routes":{"create":{"method":"PUT","path":"/contacts/{id}"}}"#
        for idSpace in ["mapped", "device"] {
            expectProblem(
                try await fixture.operate(.PUT, type, #"{"id_space":"\#(idSpace)",\#(ownID)}"#),
                .validationFailed,
                errors: ["/routes/create/path member_range"]
            )
        }
        #expect(try await fixture.operate(.PUT, type, #"{"id_space":"shared",\#(ownID)}"#).status == 200)
        expectProblem(
            try await fixture.operate(.PUT, type, #"{"id_space":"device"}"#),
            .validationFailed,
            errors: ["/id_space member_range"]
        )
    }

    @Test func `the order and the number in flight are settings of the organization`() async throws {
        let fixture = try await TwoTenantFixture()
        let set = try await fixture.operate(
            .PUT,
            fixture.admin,
            #"{"settings":{"order":"dependencies","max_in_flight_per_user":32}}"#
        )
        #expect(set.json?.value(at: "/settings/order")?.string == "dependencies")
        #expect(set.json?.value(at: "/settings/max_in_flight_per_user")?.int64 == 32)
        for (name, value) in [
            ("order", #""random""#), ("max_in_flight_per_user", "0"), ("max_in_flight_per_user", "33"),
        ] {
            let wrong = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"\#(name)":\#(value)}}"#)
            expectProblem(wrong, .validationFailed, errors: ["/settings/\(name) member_range"])
        }
    }
}
