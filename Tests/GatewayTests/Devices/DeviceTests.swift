import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// `PUT /v1/devices/{device_id}`
@Suite struct DeviceTests {
    private static func register(
        _ worker: SyncWorker,
        _ device: String? = nil,
        _ body: String? = nil,
        headers: [(String, String)] = []
    ) async throws -> Reply {
        try await send(
            .PUT,
            worker.gateway.address + "/v1/devices/" + (device ?? worker.device.lowercased),
            token: worker.token,
            headers: headers,
            body: body.map { Array($0.utf8) }
        )
    }

    private static func json(_ device: UUID, _ sequence: Int, _ created: Timestamp, _ seen: Timestamp) -> String {
        let times = #""created_at":"\#(created.rfc3339)","last_seen_at":"\#(seen.rfc3339)""#
        return #"{"device_id":\#(device.quoted),"accepted_sequence":\#(sequence),\#(times),"next_local_ids":{}}"#
    }

    @Test func `registers a new device and updates a known one`() async throws {
        let fixture = try await TwoTenantFixture()
        let made = fixture.gateway.clock.now
        let first = try await Self.register(fixture.ada)
        #expect(first.status == 201)
        #expect(first.text == Self.json(fixture.ada.device, 0, made, made))
        fixture.gateway.clock.advance(seconds: 60)
        let again = try await Self.register(fixture.ada, fixture.ada.device.uuidString, "{}")
        #expect(again.status == 200)
        #expect(again.text == Self.json(fixture.ada.device, 0, made, fixture.gateway.clock.now))

        let pushed = try await fixture.ada.push([fixture.ada.create(), fixture.ada.create()], after: 0)
        #expect(pushed.json?["accepted_sequence"]?.int64 == 2)
        fixture.gateway.clock.advance(seconds: 60)
        let later = try await Self.register(fixture.ada, nil, "")
        #expect(later.text == Self.json(fixture.ada.device, 2, made, fixture.gateway.clock.now))
        #expect(try await fixture.ada.push([fixture.ada.create()], after: 2).statuses == ["succeeded"])
    }

    @Test func `a device that pushed is registered`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        let made = fixture.gateway.clock.now
        fixture.gateway.clock.advance(seconds: 5)
        let reply = try await Self.register(fixture.ada)
        #expect(reply.status == 200)
        #expect(reply.text == Self.json(fixture.ada.device, 1, made, fixture.gateway.clock.now))
    }

    @Test func `a registration appears in the backlog`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await Self.register(fixture.ada).status == 201)
        let backlog = try await fixture.ada.get("/v1/backlog").json
        #expect(backlog?.value(at: "/devices/0/device_id")?.string == fixture.ada.device.lowercased)
        #expect(backlog?.value(at: "/devices/0/accepted_sequence")?.int64 == 0)
        #expect(backlog?.value(at: "/lane/head")?.isNull == true)
    }

    @Test func `users and tenants may use the same device id`() async throws {
        let fixture = try await TwoTenantFixture()
        let id = fixture.ada.device
        let twin = try await SyncWorker(fixture.gateway, organization: fixture.eve.organization, user: fixture.ada.user)
        _ = try await fixture.ada.push([fixture.ada.create()])
        let made = fixture.gateway.clock.now
        fixture.gateway.clock.advance(seconds: 1)
        for other in [fixture.bob, fixture.eve, twin] {
            let reply = try await Self.register(other, id.lowercased)
            #expect(reply.status == 201)
            let now = fixture.gateway.clock.now
            #expect(reply.text == Self.json(id, 0, now, now), "no data of Ada's is shown")
        }
        let own = try await Self.register(fixture.ada)
        #expect(own.text == Self.json(id, 1, made, fixture.gateway.clock.now))
    }

    @Test func `answers 404 for an invalid device id`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.whileNothingChanges {
            for device in ["x", "1", "%00", UUID().lowercased + "0", UUID().lowercased.filter { $0 != "-" }] {
                expectProblem(try await Self.register(fixture.ada, device), .notFound, errors: [])
            }
            for path in ["/v1/devices", "/v1/devices/", "/v1/devices/\(UUID().lowercased)/x"] {
                let reply = try await send(.PUT, fixture.gateway.address + path, token: fixture.ada.token)
                expectProblem(reply, .notFound, errors: [])
            }
        }
    }

    @Test func `names the invalid members of a registration`() async throws {
        let fixture = try await TwoTenantFixture()
        let cases: [(String, ProblemCode, [String])] = [
            ("{", .invalidJSON, []), ("{}x", .invalidJSON, []),
            ("[]", .invalidRequest, [" member_type"]), ("null", .invalidRequest, [" member_type"]),
            (#"{"name":"phone"}"#, .invalidRequest, ["/name member_unknown"]),
            (#"{"a/~b":1}"#, .invalidRequest, ["/a~1~0b member_unknown"]),
            (#"{"device_id":"\#(fixture.ada.device.lowercased)"}"#, .invalidRequest, ["/device_id member_unknown"]),
            (#"{"x":1,"x":1}"#, .invalidRequest, ["/x member_duplicate"]),
        ]
        try await fixture.whileNothingChanges {
            for (body, code, errors) in cases {
                expectProblem(try await Self.register(fixture.ada, nil, body), code, errors: errors)
            }
            let long = "{" + String(repeating: " ", count: 16_384) + "}"
            expectProblem(try await Self.register(fixture.ada, nil, long), .payloadTooLarge, errors: [])
            expectProblem(
                try await Self.register(fixture.ada, nil, "{}", headers: [("Content-Type", "text/plain")]),
                .unsupportedMediaType
            )
            let query = fixture.ada.device.lowercased + "?x=1"
            expectProblem(try await Self.register(fixture.ada, query), .invalidRequest, errors: [" parameter_unknown"])
        }
    }

    @Test func `rejects new devices above a thousand`() async throws {
        let fixture = try await TwoTenantFixture()
        #expect(try await Self.register(fixture.ada).status == 201)
        try await fixture.execute(
            """
            INSERT INTO devices
            SELECT '\(fixture.ada.organization.lowercased)', '\(fixture.ada.user.lowercased)', gen_random_uuid(), 0,
                now(), now()
            FROM generate_series(1, 999)
            """
        )
        let full = try await Self.register(fixture.ada, UUID().lowercased)
        expectProblem(full, .validationFailed, errors: [" device_limit"])
        #expect(try await Self.register(fixture.ada).status == 200)
        #expect(try await Self.register(fixture.bob).status == 201)
        let tablet = try await SyncWorker(
            fixture.gateway,
            organization: fixture.ada.organization,
            user: fixture.ada.user
        )
        expectProblem(
            try await tablet.push([tablet.create()]),
            .validationFailed,
            errors: ["/device_id device_limit"]
        )
        expectProblem(try await Self.register(tablet), .validationFailed, errors: [" device_limit"])
        #expect(try await fixture.ada.push([fixture.ada.create()]).statuses == ["succeeded"])
        #expect(try await fixture.ada.get("/v1/backlog").json?["devices"]?.elements?.count == 1_000)
    }

    @Test func `with explicit provisioning only provisioned users can register`() async throws {
        let fixture = try await TwoTenantFixture(#"{"provisioning":"explicit"}"#)
        let tables = try await fixture.tables()
        expectProblem(try await Self.register(fixture.ada), .userUnknown, errors: [])
        #expect(try await fixture.tables() == tables)
        let user = fixture.admin + "/users/\(fixture.ada.user.lowercased)"
        #expect(try await fixture.operate(.PUT, user).status == 201)
        #expect(try await Self.register(fixture.ada).status == 201)
        #expect(try await fixture.operate(.DELETE, user).status == 204)
        expectProblem(try await Self.register(fixture.ada), .userUnknown, errors: [])
    }

    @Test func `a suspended organization registers no devices`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.operate(.PUT, fixture.admin, #"{"status":"suspended"}"#)
        let tables = try await fixture.tables()
        expectProblem(try await Self.register(fixture.ada), .organizationSuspended, errors: [])
        #expect(try await fixture.tables() == tables)
    }

    @Test func `a purge leaves no rows of concurrent registrations`() async throws {
        let fixture = try await TwoTenantFixture()
        let replies = try await withThrowingTaskGroup(of: Reply.self) { group in
            for place in 0..<40 {
                let worker = place % 2 == 0 ? fixture.ada : fixture.bob
                group.addTask { try await Self.register(worker, UUID().lowercased) }
            }
            group.addTask { try await fixture.operate(.DELETE, fixture.admin) }
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        #expect(replies.filter { $0.status == 204 }.count == 1)
        for reply in replies where ![201, 204].contains(reply.status) {
            expectProblem(reply, .organizationUnknown, errors: [])
        }
        #expect(try await fixture.mentions(of: fixture.ada.organization.lowercased).filter { $0.value > 0 } == [:])
    }
}
