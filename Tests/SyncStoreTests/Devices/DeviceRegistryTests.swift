import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore
@testable import UsersFeature

@Suite(.serialized) struct DeviceRegistryTests {
    private static func register(_ phone: Phone, _ device: UUID? = nil, through gateway: Gateway? = nil) async throws
        -> (isNew: Bool, json: JSONValue)
    {
        let found = try await (gateway ?? phone.gateway).store.devices.register(
            device ?? phone.device,
            organization: phone.organization,
            user: phone.user
        )
        return (found.isNew, try JSONTree(parsing: found.value.json()).root)
    }

    private static func refused(_ phone: Phone, _ device: UUID? = nil) async throws -> String? {
        do {
            _ = try await register(phone, device)
            return nil
        } catch let problem as Problem {
            return problem.summary
        }
    }

    /// Registers this number of devices for the user.
    private static func fill(_ phone: Phone, _ count: Int) async throws {
        try await phone.execute(
            """
            INSERT INTO users VALUES ('\(phone.organization.id.lowercased)', '\(phone.user.lowercased)', now())
            ON CONFLICT DO NOTHING;
            INSERT INTO devices
            SELECT '\(phone.organization.id.lowercased)', '\(phone.user.lowercased)', gen_random_uuid(), 3, now(), now()
            FROM generate_series(1, \(count))
            """
        )
    }

    @Test func `a registration neither raises nor lowers the watermark`() async throws {
        let phone = try await Phone.new()
        #expect(try await Self.register(phone).isNew)
        #expect(try await Self.register(phone).isNew == false)
        let first = try await phone.push([phone.create(), phone.create()], after: 0)
        #expect(first["accepted_sequence"]?.int64 == 2)
        let again = try await Self.register(phone)
        #expect(!again.isNew && again.json["accepted_sequence"]?.int64 == 2)
        let next = try await phone.push([phone.create()], after: 2)
        #expect(next.results.map(\.status) == ["succeeded"])
        #expect(next["accepted_sequence"]?.int64 == 3)
        #expect(try await phone.disorder() == [])
    }

    @Test func `concurrent registrations never exceed the device limit`() async throws {
        let phone = try await Phone.new()
        try await Self.fill(phone, 995)
        let replica = try await Gateway(replicaOf: phone.gateway)
        let refusals = try await withThrowingTaskGroup(of: String?.self) { group in
            for place in 0..<16 {
                group.addTask {
                    do {
                        _ = try await Self.register(phone, UUID(), through: place % 2 == 0 ? phone.gateway : replica)
                        return nil
                    } catch let problem as Problem {
                        return problem.summary
                    }
                }
            }
            return try await group.reduce(into: [String?]()) { $0.append($1) }
        }
        #expect(refusals.count { $0 == nil } == 5)
        #expect(Set(refusals.compactMap { $0 }) == ["validation_failed  device_limit"])
        #expect(try await phone.gateway.count("devices", of: phone.organization.id) == 1_000)
        // a known device is updated, an additional device is refused every time, and other users have separate limits
        let known: UUID = try await phone.gateway.read("SELECT device_id FROM devices LIMIT 1").read(0, 0)
        let seen = try await Self.register(phone, known)
        #expect(!seen.isNew && seen.json["last_seen_at"]?.string == phone.gateway.clock.now.rfc3339)
        let problem = await #expect(throws: Problem.self) { try await phone.push([phone.create()]) }
        #expect(problem?.summary == "validation_failed /device_id device_limit")
        #expect(try await Self.refused(phone, UUID()) == "validation_failed  device_limit")
        #expect(try await Self.register(Phone(phone.gateway, phone.organization)).isNew)
    }

    @Test func `a registration waits for a push that adds a device, and counts the device`() async throws {
        let phone = try await Phone.new()
        try await phone.push([phone.create()])
        try await Self.fill(phone, 998)
        // like a push in progress, this locks the lane and adds a device without a commit
        let push = try await phone.gateway.database.connect()
        try await push.execute(
            script: """
                BEGIN;
                SELECT 1 FROM lanes WHERE \(phone.owner) FOR UPDATE;
                INSERT INTO devices
                SELECT organization_id, user_id, gen_random_uuid(), 1, now(), now() FROM lanes WHERE \(phone.owner);
                """
        )
        async let refusal = Self.refused(phone, UUID())
        try await phone.gateway.waitForLocks(1)
        try await push.execute(script: "COMMIT")
        #expect(try await refusal == "validation_failed  device_limit")
        #expect(try await phone.gateway.count("devices", of: phone.organization.id) == 1_000)
        await push.closeAndWait()
    }

    @Test func `the device limit of one user does not affect other users`() async throws {
        let phone = try await Phone.new()
        let kept = phone.create()
        #expect(try await phone.push([kept]).results.map(\.status) == ["succeeded"])
        try await phone.execute(
            """
            INSERT INTO devices
            SELECT '\(phone.organization.id.lowercased)', '\(phone.user.lowercased)', gen_random_uuid(), 3, now(), now()
            FROM generate_series(1, 997)
            """
        )
        func another() -> Phone { Phone(phone.gateway, phone.organization, user: phone.user) }
        for _ in 0..<2 { try await another().push([phone.create()]) }
        for strict in [false, true] {
            let one = another()
            let problem = await #expect(throws: Problem.self) { try await one.push([one.create()], strict: strict) }
            #expect(problem?.summary == "validation_failed /device_id device_limit")
        }
        // a known mutation is answered from any device, and adds no device
        let replay = try await another().push([kept])
        #expect(replay.results.map(\.isReplayed) == [true])
        let mixed = await #expect(throws: Problem.self) { try await another().push([kept, phone.create()]) }
        #expect(mixed?.summary == "validation_failed /device_id device_limit")
        let previewed = await #expect(throws: Problem.self) { try await Self.preview(another(), phone.create()) }
        #expect(previewed?.summary == "validation_failed /device_id device_limit")
        #expect(try await phone.gateway.count("devices", of: phone.organization.id) == 1_000)
        #expect(
            try await phone.push([phone.create()]).results.map(\.status) == ["succeeded"],
            "a known device still pushes"
        )
        let colleague = Phone(phone.gateway, phone.organization)
        #expect(try await colleague.push([colleague.create()]).results.map(\.status) == ["succeeded"])
        let stranger = Phone(phone.gateway, try await phone.gateway.organization(), user: phone.user)
        #expect(try await stranger.push([stranger.create()]).results.map(\.status) == ["succeeded"])
    }

    private static func preview(_ phone: Phone, _ entry: Entry) async throws {
        let body = #"{"device_id":"\#(phone.device.lowercased)","mutations":[\#(entry.json)]}"#
        _ = try await phone.gateway.store.previews.preview(
            try PushRequest(body: Array(body.utf8), limits: IntakeLimits()),
            organization: phone.organization,
            user: phone.user,
            isStrict: false
        )
    }

    @Test func `a concurrent registration and push create one device`() async throws {
        let gateway = try await Gateway()
        let replica = try await Gateway(replicaOf: gateway)
        let organization = try await gateway.organization()
        for round in 0..<20 {
            let phone = Phone(gateway, organization)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for place in 0..<4 {
                    group.addTask {
                        _ = try await Self.register(phone, through: place % 2 == 0 ? gateway : replica)
                    }
                }
                group.addTask {
                    let answer = try await phone.push([phone.create()], through: round % 2 == 0 ? gateway : replica)
                    #expect(answer.results.map(\.status) == ["succeeded"])
                }
                try await group.waitForAll()
            }
            #expect(try await Self.register(phone).json["accepted_sequence"]?.int64 == 1)
            #expect(try await phone.disorder() == [])
        }
        #expect(try await gateway.count("devices", of: organization.id) == 20)
        #expect(try await gateway.count("users", of: organization.id) == 20)
        #expect(try await gateway.count("lanes", of: organization.id) == 20)
    }

    @Test func `a registration of a user without access creates no rows`() async throws {
        let phone = try await Phone.new(#"{"provisioning":"explicit"}"#)
        #expect(try await Self.refused(phone) == "user_unknown")
        #expect(try await phone.gateway.count("devices", of: phone.organization.id) == 0)
        #expect(try await phone.gateway.count("users", of: phone.organization.id) == 0)
        #expect(try await phone.gateway.count("lanes", of: phone.organization.id) == 0)
        _ = try await phone.gateway.store.administration.putUser(phone.user, in: phone.organization.id)
        #expect(try await Self.register(phone).isNew)
    }

    @Test(arguments: ["DELETE FROM organizations", "UPDATE organizations SET status = 'purging'"])
    func `a deleted organization accepts no devices`(_ script: String) async throws {
        let phone = try await Phone.new()
        try await phone.execute(
            script.hasPrefix("DELETE")
                ? "DELETE FROM organization_keys; DELETE FROM feeds; DELETE FROM entity_types; \(script)" : script
        )
        #expect(try await Self.refused(phone) == "organization_unknown")
        #expect(try await phone.gateway.count("devices", of: phone.organization.id) == 0)
        #expect(try await phone.gateway.count("users", of: phone.organization.id) == 0)
    }

    /// The purge begins while a registration has locked the organization. It waits, and deletes the registered device.
    @Test func `a purge waits for registrations in progress`() async throws {
        let gateway = try await Gateway()
        for _ in 0..<5 {
            let organization = try await gateway.organization()
            let phones = (0..<8).map { _ in Phone(gateway, organization) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for phone in phones {
                    group.addTask {
                        for _ in 0..<3 {
                            let refusal = try await Self.refused(phone, UUID())
                            #expect(refusal == nil || refusal == "organization_unknown")
                        }
                    }
                }
                group.addTask { _ = try await gateway.store.administration.purge(organization.id) }
                try await group.waitForAll()
            }
            for table in ["users", "devices", "lanes", "organizations"] {
                #expect(try await gateway.count(table, of: organization.id) == 0, "\(table)")
            }
        }
    }
}
