import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `POST /admin/organizations/{id}/users/{user}/join`, and its effects on both users' phones.
@Suite struct JoinOverHTTPTests {
    private static func fixture(_ settings: String = "{}") async throws -> TwoTenantFixture {
        try await TwoTenantFixture(settings) { $0.joinTimeout = .zero }
    }

    private func join(_ fixture: TwoTenantFixture, _ user: UUID, into target: UUID) async throws -> Reply {
        try await fixture.operate(
            .POST,
            fixture.admin + "/users/\(user.lowercased)/join",
            #"{"into":"\#(target.lowercased)"}"#
        )
    }

    @Test func `a merged user acts as the target user`() async throws {
        let fixture = try await Self.fixture()
        let (ada, bob) = (fixture.ada, fixture.bob)
        _ = try await fixture.operate(
            .PUT,
            fixture.admin + "/entity-types/diary",
            #"{"visibility":"user","upstream":false}"#
        )
        let mine = ada.create("diary")
        let first = try await ada.push([mine])
        let server = try #require(first.json?.value(at: "/results/0/server_id")?.string)
        #expect(try await bob.push([bob.create("diary")]).status == 200)
        #expect(try await bob.get("/v1/changes").json?["changes"]?.elements.map { Array($0).count } == 1)

        let asked = try await join(fixture, ada.user, into: bob.user)
        #expect(asked.status == 202)
        #expect(
            asked.json?.names
                == ["user", "into", "state", "started_at", "finished_at", "user_subjects", "into_subjects"]
        )
        #expect(asked.json?["state"]?.string == "closing" && asked.json?["finished_at"]?.isNull == true)
        for phone in [ada, bob] {
            let reply = try await phone.push([phone.create()])
            expectProblem(reply, .overloaded, errors: [])
            #expect(reply.headers.first(name: "Retry-After") == "2")
            expectProblem(try await phone.get("/v1/mutations/" + mine.id), .overloaded, errors: [])
        }
        fixture.gateway.clock.advance(seconds: 9)
        let done = try await join(fixture, ada.user, into: bob.user)
        #expect(done.status == 200 && done.json?["state"]?.string == "done")
        #expect(done.json?["started_at"]?.text == asked.json?["started_at"]?.text)
        #expect(try await join(fixture, ada.user, into: bob.user).text == done.text)

        // the same mutation, by the same device, is answered as before
        let again = try await ada.push([mine])
        #expect(again.status == 200 && again.json?.value(at: "/results/0/replayed")?.bool == true)
        #expect(again.json?.value(at: "/results/0/server_id")?.string == server)
        for phone in [ada, bob] {
            #expect(try await phone.get("/v1/changes").json?["changes"]?.elements.map { Array($0).count } == 2)
            #expect(try await phone.get("/v1/mutations/" + mine.id).json?["user_id"]?.string == bob.user.lowercased)
        }
        #expect(try await fixture.metrics().contains("sluice_users_joined_total 1"))
    }

    /// A response after the merge would no longer belong to the waiting user, and its cursor could skip changes of the
    /// other user.
    @Test func `waiting requests end when their user is closed for a merge`() async throws {
        let fixture = try await TwoTenantFixture { configuration in
            configuration.joinTimeout = .zero
            configuration.checkInterval = .milliseconds(50)
        }
        let (ada, bob) = (fixture.ada, fixture.bob)
        for phone in [ada, bob] { _ = try await phone.push([phone.create()]) }
        let next = try #require(try await ada.get("/v1/changes").json?["next"]?.string)
        async let waiting = ada.get("/v1/changes?wait=50&since=\(next)")
        async let others = bob.get("/v1/changes?wait=50&since=\(next)")
        #expect(try await join(fixture, ada.user, into: bob.user).status == 202)
        for reply in [try await waiting, try await others] { expectProblem(reply, .overloaded, errors: []) }
    }

    @Test func `a rejected merge names the violated rule`() async throws {
        let fixture = try await Self.fixture()
        let (ada, bob, eve) = (fixture.ada, fixture.bob, fixture.eve)
        for phone in [ada, bob, eve] { _ = try await phone.push([phone.create()]) }
        let never = try await join(fixture, ada.user, into: UUID())
        let strangers = try await join(fixture, ada.user, into: eve.user)
        expectProblem(never, .validationFailed, errors: ["/into join_unknown_user"])
        #expect(
            strangers.json?["detail"]?.text == never.json?["detail"]?.text,
            "another tenant's user is refused like an unknown user"
        )
        #expect(strangers.status == never.status)
        expectProblem(
            try await join(fixture, ada.user, into: ada.user),
            .validationFailed,
            errors: ["/into join_same_user"]
        )
        expectProblem(try await join(fixture, eve.user, into: ada.user), .notFound, errors: [])
        expectProblem(try await join(fixture, UUID(), into: ada.user), .notFound, errors: [])
        let path = fixture.admin + "/users/\(ada.user.lowercased)/join"
        for (body, error) in [
            ("{}", "/into member_required"), (#"{"into":1}"#, "/into uuid_format"),
            (#"{"into":"x"}"#, "/into uuid_format"), (#"{"onto":"x"}"#, "/onto member_unknown"),
        ] {
            expectProblem(try await fixture.operate(.POST, path, body), .validationFailed, errors: [error])
        }
        #expect(try await ada.push([ada.create()]).status == 200)
    }

    @Test func `a merged user provisioned again is provisioned as the target user`() async throws {
        let fixture = try await Self.fixture(#"{"provisioning":"explicit"}"#)
        let (ada, bob) = (fixture.ada, fixture.bob)
        for phone in [ada, bob] {
            #expect(try await fixture.operate(.PUT, fixture.admin + "/users/\(phone.user.lowercased)").status == 201)
            #expect(try await phone.push([phone.create()]).status == 200)
        }
        #expect(try await join(fixture, ada.user, into: bob.user).status == 202)
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await join(fixture, ada.user, into: bob.user).status == 200)
        #expect(try await ada.push([ada.create()]).status == 200)
        #expect(try await fixture.operate(.DELETE, fixture.admin + "/users/\(bob.user.lowercased)").status == 204)
        for phone in [ada, bob] { expectProblem(try await phone.push([phone.create()]), .userUnknown, errors: []) }
    }

    @Test func `the command merges users`() async throws {
        let fixture = try await Self.fixture()
        let (ada, bob) = (fixture.ada, fixture.bob)
        for phone in [ada, bob] { _ = try await phone.push([phone.create()]) }
        let environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri]
        let arguments = [
            "users", "join", ada.user.uuidString, "--into", bob.user.uuidString, "--organization",
            ada.organization.uuidString,
        ]
        let result = try await Program.run(arguments, environment: environment)
        #expect(result.status == 0, "\(result.complaint)")
        #expect(result.output == "\(ada.user.lowercased) is joined into \(bob.user.lowercased)\n")
        let again = try await Program.run(arguments + ["--json"], environment: environment)
        #expect(try JSONTree(parsing: Array(again.output.utf8)).root["state"]?.string == "done")
        let unknown = try await Program.run(
            ["users", "join", UUID().uuidString] + arguments[3...],
            environment: environment
        )
        #expect(unknown.status == 1 && unknown.complaint.contains("has no user"))
    }
}
