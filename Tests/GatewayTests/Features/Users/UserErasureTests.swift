import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `DELETE /admin/organizations/{id}/users/{user}?erase=true`, and its effects on phones.
@Suite struct UserErasureTests {
    private static func fixture(_ settings: String = "{}") async throws -> TwoTenantFixture {
        try await TwoTenantFixture(settings) { $0.joinTimeout = .zero }
    }

    private func erase(_ fixture: TwoTenantFixture, _ user: UUID, _ query: String = "?erase=true") async throws -> Reply
    {
        try await fixture.operate(.DELETE, fixture.admin + "/users/\(user.lowercased)\(query)")
    }

    @Test func `an erased user is deleted permanently`() async throws {
        let fixture = try await Self.fixture()
        let (ada, bob, eve) = (fixture.ada, fixture.bob, fixture.eve)
        let mine = ada.create("task", #"{"title":"Geheimnis"}"#)
        for reply in [
            try await ada.push([mine]), try await bob.push([bob.create()]), try await eve.push([eve.create()]),
        ] { #expect(reply.status == 200) }
        let cursor = try #require(try await bob.get("/v1/changes").next)
        let untouched = try await fixture.rows(mentioning: eve.organization.lowercased)

        let asked = try await erase(fixture, ada.user)
        #expect(asked.status == 202)
        #expect(asked.json?.names == ["user", "state", "started_at", "finished_at", "attempts", "last_error"])
        #expect(asked.json?["state"]?.string == "closing" && asked.json?["finished_at"]?.isNull == true)
        let refusals = [
            try await ada.push([mine]), try await ada.push([ada.create()]), try await ada.get("/v1/changes"),
            try await ada.get("/v1/mutations/" + mine.id), try await ada.get("/v1/events"),
            try await ada.get("/v1/id-mappings"), try await ada.get("/v1/backlog"),
        ]
        for reply in refusals {
            expectProblem(reply, .userErased, errors: [])
            #expect(reply.json?["detail"]?.string?.contains("Delete the local data and sign out") == true)
        }
        fixture.gateway.clock.advance(seconds: 9)
        let done = try await erase(fixture, ada.user)
        #expect(done.status == 200 && done.json?["state"]?.string == "done")
        #expect(done.json?["user"]?.string == ada.user.lowercased)
        #expect(try await erase(fixture, ada.user).text == done.text)
        for text in [ada.user.lowercased, ada.device.lowercased, mine.id, "Geheimnis"] {
            #expect(try await fixture.mentions(of: text).filter { $0.value > 0 } == [:], "\(text)")
        }
        expectProblem(try await ada.push([mine]), .userErased, errors: [])
        expectProblem(try await ada.get("/v1/changes"), .userErased, errors: [])
        let changes = try await bob.get("/v1/changes?since=\(cursor)")
        #expect(changes.json?.value(at: "/changes/0/deleted")?.bool == true)
        #expect(try await fixture.rows(mentioning: eve.organization.lowercased) == untouched)
        #expect(try await fixture.metrics().contains("sluice_users_erased_total 1"))

        // an operator gets the same response
        let user = fixture.admin + "/users/\(ada.user.lowercased)"
        expectProblem(try await fixture.operate(.PUT, user), .userErased, errors: [])
        expectProblem(try await fixture.operate(.DELETE, user), .notFound, errors: [])
        expectProblem(try await fixture.operate(.GET, user + "/export"), .notFound, errors: [])
        let into = #"{"into":"\#(bob.user)"}"#
        expectProblem(try await fixture.operate(.POST, user + "/join", into), .notFound, errors: [])
        // a purge leaves no hash of any user
        #expect(try await fixture.operate(.DELETE, fixture.admin).status == 204)
        for table in ["user_erasures", "erased_names", "erased_subjects", "erasure_salts"] {
            #expect(try await fixture.lines("SELECT count(*)::text FROM \(table)") == ["0"], "\(table)")
        }
    }

    @Test func `a waiting request is answered with the user's erasure`() async throws {
        let fixture = try await Self.fixture()
        let ada = fixture.ada
        _ = try await ada.push([ada.create()])
        let cursor = try #require(try await ada.get("/v1/changes").next)
        async let waiting = ada.get("/v1/changes?since=\(cursor)&wait=60")
        try await fixture.reaches("sluice_http_waits 1")
        #expect(try await erase(fixture, ada.user).status == 202)
        expectProblem(try await waiting, .userErased, errors: [])
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await erase(fixture, ada.user).status == 200)
    }

    @Test func `without erase a user only loses access`() async throws {
        let fixture = try await Self.fixture(#"{"provisioning":"explicit"}"#)
        let ada = fixture.ada
        let user = fixture.admin + "/users/\(ada.user.lowercased)"
        for query in ["", "?erase=false", "?erase="] {
            #expect(try await fixture.operate(.PUT, user).status < 300)
            #expect(try await ada.push([ada.create()]).status == 200)
            #expect(try await erase(fixture, ada.user, query).status == 204)
            expectProblem(try await ada.push([ada.create()]), .userUnknown, errors: [])
            // the user's mutations remain, and so does their owner
            let found = try await fixture.operate(.GET, user)
            #expect(found.status == 200 && found.json?["registered"]?.bool == false, "\(found)")
            let listed = try await fixture.operate(.GET, fixture.admin + "/users").json?["users"]?.elements
            #expect(listed?.contains { $0["id"]?.string == ada.user.lowercased } == true)
        }
        expectProblem(try await erase(fixture, ada.user, "?erase=yes"), .invalidRequest)
        expectProblem(try await erase(fixture, ada.user, "?erased=true"), .invalidRequest)
        #expect(try await fixture.lines("SELECT count(*)::text FROM mutations") == ["3"])
        expectProblem(try await erase(fixture, fixture.eve.user), .notFound, errors: [])
        expectProblem(try await erase(fixture, UUID()), .notFound, errors: [])
    }

    @Test func `the entity type and the upstream define the effects of an erasure`() async throws {
        let fixture = try await Self.fixture()
        let type = fixture.admin + "/entity-types/task"
        let made = try await fixture.operate(.PUT, type, #"{"on_erase":"blank_owner"}"#)
        #expect(made.status == 201 && made.json?["on_erase"]?.string == "blank_owner")
        #expect(try await fixture.operate(.PUT, type, "{}").json?["on_erase"]?.string == "blank_owner")
        expectProblem(
            try await fixture.operate(.PUT, type, #"{"on_erase":"keep"}"#),
            .validationFailed,
            errors: ["/on_erase member_range"]
        )
        let upstream = fixture.admin + "/upstream"
        let base = #""base_url":"http://127.0.0.1:1""#
        let set = try await fixture.operate(.PUT, upstream, "{\(base),\"erase_endpoint\":\"/people/{user}\"}")
        #expect(set.status == 201 && set.json?["erase_endpoint"]?.string == "/people/{user}")
        for wrong in ["people/{user}", "/people", "/a b/{user}", "/../{user}", "/{user}#x", "/é/{user}"] {
            expectProblem(
                try await fixture.operate(.PUT, upstream, #"{"erase_endpoint":"\#(wrong)"}"#),
                .validationFailed,
                errors: ["/erase_endpoint member_range"]
            )
        }
        #expect(try await fixture.operate(.PUT, upstream, "{}").json?["erase_endpoint"]?.string == "/people/{user}")
        #expect(
            try await fixture.operate(.PUT, upstream, #"{"erase_endpoint":null}"#).json?["erase_endpoint"]?.isNull
                == true
        )
    }

    @Test func `the command erases users`() async throws {
        let fixture = try await Self.fixture()
        let ada = fixture.ada
        _ = try await ada.push([ada.create()])
        let environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri]
        let arguments = ["users", "erase", ada.user.uuidString, "--organization", ada.organization.uuidString]
        let unsure = try await Program.run(arguments, environment: environment)
        #expect(unsure.status == 1 && unsure.complaint.contains("--yes"))
        #expect(try await ada.push([ada.create()]).status == 200)
        let result = try await Program.run(arguments + ["--yes"], environment: environment)
        #expect(result.status == 0, "\(result.complaint)")
        #expect(result.output == "\(ada.user.lowercased) is erased\n")
        let again = try await Program.run(arguments + ["--yes", "--json"], environment: environment)
        #expect(try JSONTree(parsing: Array(again.output.utf8)).root["state"]?.string == "done")
        let unknown = try await Program.run(
            ["users", "erase", UUID().uuidString, "--yes"] + arguments[3...],
            environment: environment
        )
        #expect(unknown.status == 1 && unknown.complaint.contains("has no user"))
    }
}
