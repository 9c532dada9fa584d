import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing
import Tokens

/// `/admin/organizations/{id}/users`, and subjects in all places where `/admin` shows a user.
@Suite(.timeLimit(.minutes(10))) struct AdminUsersTests {
    private static let (north, south) = (TwoProviders.north, TwoProviders.south)

    private static func path(_ organization: UUID) -> String { "/admin/organizations/\(organization.lowercased)/users" }

    private static func users(_ reply: Reply) throws -> [JSONValue] {
        #expect(reply.status == 200, "\(reply.text)")
        #expect(reply.json?.names == ["users", "next"])
        return try Array(#require(reply.json?["users"]?.elements))
    }

    private static func encoded(_ text: String) -> String {
        text.utf8.map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.count == 1 ? "0" + digits : digits)
        }
        .joined()
    }

    @Test func `a user's subjects are shown, but only to the operator`() async throws {
        let stage = try await TwoProviders()
        let tenant = stage.tenants.shared
        let path = Self.path(tenant)
        #expect(try Self.users(await stage.operate(.GET, path)).isEmpty)
        let ada = try stage.token(Self.north, #"auth0|ada"#, tenant)
        let plain = UUID()
        let bob = try stage.token(Self.south, plain.lowercased, tenant)
        // a read records a subject, but records nothing about users with their own UUIDs
        for caller in [ada, bob] { #expect(try await stage.mutations(caller) == []) }
        let read = try Self.users(await stage.operate(.GET, path))
        #expect(read.count == 1)
        #expect(read[0].names == ["id", "registered", "first_seen_at", "last_seen_at", "subjects", "into"])
        #expect(read[0]["registered"]?.bool == false && read[0]["last_seen_at"]?.isNull == true)
        #expect(read[0]["first_seen_at"]?.string == stage.gateway.clock.now.rfc3339)
        let subjects =
            #"[{"issuer":"https://north.example","subject":"auth0|ada","first_seen_at":"\#(stage.gateway.clock.now.rfc3339)"}]"#
        #expect(read[0]["subjects"]?.text == subjects)
        #expect(read[0]["into"]?.isNull == true)

        try await stage.push(ada)
        try await stage.push(bob)
        let pushed = try Self.users(await stage.operate(.GET, path))
        #expect(pushed.count == 2 && pushed.allSatisfy { $0["registered"]?.bool == true })
        #expect(pushed.allSatisfy { $0["last_seen_at"]?.string == stage.gateway.clock.now.rfc3339 })
        let own = try #require(pushed.first { $0["id"]?.string == plain.lowercased })
        #expect(own["subjects"]?.text == "[]")
        for user in pushed {
            let one = try await stage.operate(.GET, path + "/" + (user["id"]?.string ?? "-"))
            #expect(one.text == user.text)
        }
        // another organization does not show the user
        for other in [stage.tenants.north, stage.tenants.south] {
            #expect(try Self.users(await stage.operate(.GET, Self.path(other))).isEmpty)
            let reply = try await stage.operate(.GET, Self.path(other) + "/" + plain.lowercased)
            expectProblem(reply, .notFound, errors: [])
        }
        expectProblem(try await stage.operate(.GET, Self.path(UUID())), .notFound, errors: [])
        #expect(try await send(.GET, stage.gateway.operations + "/metrics").text.contains("auth0|ada") == false)
    }

    @Test func `finds a user by issuer and subject, byte by byte`() async throws {
        let stage = try await TwoProviders()
        let tenant = stage.tenants.shared
        let path = Self.path(tenant)
        let subjects = ["ada@example.org", "Ada@example.org", "a&b=c%20+#", "e\u{301}", "é"]
        for subject in subjects {
            _ = try await stage.mutations(try stage.token(Self.north, subject, tenant))
            let query = "?issuer=\(Self.encoded(Self.north))&subject=\(Self.encoded(subject))"
            let found = try Self.users(await stage.operate(.GET, path + query))
            #expect(found.count == 1, "\(subject)")
            #expect(
                found.first?.value(at: "/subjects/0/subject")?.string.map { ByteExactString($0) }
                    == ByteExactString(subject)
            )
            for other in [Self.path(stage.tenants.north) + query, path + "?subject=\(Self.encoded(subject))"] {
                #expect(try Self.users(await stage.operate(.GET, other)).isEmpty)
            }
        }
        for query in [
            "issuer=x", "subject=%01", "subject=\(String(repeating: "x", count: 256))", "limit=0", "cursor=x",
        ] {
            let reply = try await stage.operate(.GET, path + "?" + query)
            expectProblem(reply, .invalidRequest, errors: [" parameter_invalid"])
        }
        expectProblem(try await stage.operate(.GET, path + "?name=x"), .invalidRequest, errors: [" parameter_unknown"])
        let missing = try await stage.operate(.GET, Self.path(UUID()) + "?subject=x")
        expectProblem(missing, .notFound, errors: [])
    }

    @Test func `pages the list of users by id`() async throws {
        let stage = try await TwoProviders()
        let tenant = stage.tenants.shared
        for index in 0..<7 {
            let subject = index % 2 == 0 ? "user-\(index)" : UUID().lowercased
            try await stage.push(try stage.token(Self.north, subject, tenant))
        }
        var ids: [String] = []
        var sizes: [Int] = []
        var cursor: String?
        repeat {
            let query = "?limit=3" + (cursor.map { "&cursor=" + $0 } ?? "")
            let reply = try await stage.operate(.GET, Self.path(tenant) + query)
            let users = try Self.users(reply)
            ids += users.compactMap { $0["id"]?.string }
            sizes.append(users.count)
            cursor = reply.next
        } while cursor != nil && sizes.count < 9
        #expect(sizes == [3, 3, 1])
        #expect(Set(ids).count == 7 && ids == ids.sorted())
    }

    @Test func `a subject can be provisioned before its first token`() async throws {
        let stage = try await TwoProviders(#"{"provisioning":"explicit"}"#)
        let tenant = stage.tenants.shared
        let path = Self.path(tenant)
        let ada = try stage.token(Self.north, "auth0|ada", tenant)
        expectProblem(try await stage.get("/v1/mutations", ada), .userUnknown, errors: [])
        #expect(try Self.users(await stage.operate(.GET, path)).isEmpty, "a rejected caller is not recorded")

        let body = #"{"issuer":"\#(Self.north)","subject":"auth0|ada"}"#
        let made = try await stage.operate(.POST, path, body)
        #expect(made.status == 201, "\(made.text)")
        #expect(made.json?["registered"]?.bool == true && made.json?["last_seen_at"]?.isNull == true)
        #expect(made.json?.value(at: "/subjects/0/subject")?.string == "auth0|ada")
        let id = try #require(made.json?["id"]?.string)
        #expect(UUID(uuidString: id)?.isVersion8 == true)
        let again = try await stage.operate(.POST, path, body)
        #expect(again.status == 200 && again.text == made.text)
        // the user is admitted immediately, although the rejection was cached
        let pushed = try await stage.push(ada)
        #expect(try await stage.mutations(ada) == [pushed])
        // the subject is admitted only in this organization, for this issuer and in this spelling
        for token in [
            try stage.token(Self.south, "auth0|ada", tenant),
            try stage.token(Self.north, "auth0|ada", stage.tenants.north),
            try stage.token(Self.north, "auth0|Ada", tenant), try stage.token(Self.north, id, tenant),
        ] { expectProblem(try await stage.get("/v1/mutations", token), .userUnknown, errors: []) }
        // a deprovisioned subject is provisioned again as the same user
        #expect(try await stage.operate(.DELETE, path + "/" + id).status == 204)
        expectProblem(try await stage.get("/v1/mutations", ada), .userUnknown, errors: [])
        let back = try await stage.operate(.POST, path, body)
        #expect(back.status == 201 && back.json?["id"]?.string == id)
        #expect(try await stage.mutations(ada) == [pushed])
    }

    @Test func `a merged user is provisioned as the target user`() async throws {
        let stage = try await TwoProviders(#"{"provisioning":"explicit"}"#)
        let tenant = stage.tenants.shared
        let path = Self.path(tenant)
        var ids: [String] = []
        for subject in ["old", "new"] {
            let reply = try await stage.operate(.POST, path, #"{"issuer":"\#(Self.north)","subject":"\#(subject)"}"#)
            ids.append(try #require(reply.json?["id"]?.string))
        }
        try await stage.execute(
            """
            INSERT INTO user_joins (organization_id, user_id, into_id, started_at, feed_end)
            VALUES ('\(tenant)', '\(ids[0])', '\(ids[1])', now(), 0);
            DELETE FROM users WHERE organization_id = '\(tenant)'
            """
        )
        stage.gateway.clock.advance(seconds: 6)
        let reply = try await stage.operate(.POST, path, #"{"issuer":"\#(Self.north)","subject":"old"}"#)
        #expect(reply.status == 201 && reply.json?["into"]?.string == ids[1], "\(reply.text)")
        let into = try await stage.operate(.GET, path + "/" + ids[1])
        #expect(into.json?["registered"]?.bool == true)
        #expect(try await stage.mutations(stage.token(Self.north, "old", tenant)) == [])
    }

    @Test func `a UUID is provisioned according to its issuer's user ids`() async throws {
        let stage = try await TwoProviders(#"{"provisioning":"explicit"}"#) { north, south in
            north.places.userForm = .uuid
            south.places.userForm = .mapped
        }
        let tenant = stage.tenants.shared
        let path = Self.path(tenant)
        let id = UUID()
        func body(_ issuer: String, _ subject: String) -> String { #"{"issuer":"\#(issuer)","subject":"\#(subject)"}"# }
        // the issuer's tokens contain the user's own id, in either case
        let own = try await stage.operate(.POST, path, body(Self.north, id.uuidString))
        #expect(own.status == 201 && own.json?["id"]?.string == id.lowercased, "\(own.text)")
        #expect(own.json?["subjects"]?.text == "[]")
        #expect(try await stage.operate(.POST, path, body(Self.north, id.lowercased)).status == 200)
        let token = try stage.token(Self.north, id.lowercased, tenant)
        #expect(try await stage.mutations(token) == [])
        let query = "?issuer=\(Self.encoded(Self.north))&subject=\(id.lowercased)"
        #expect(try Self.users(await stage.operate(.GET, path + query)).map { $0["id"]?.string } == [id.lowercased])
        // the issuer's tokens contain only UUIDs, so another text identifies no user
        let nobody = try await stage.operate(.POST, path, body(Self.north, "auth0|ada"))
        expectProblem(nobody, .validationFailed, errors: ["/subject uuid_format"])
        // for another issuer, each text is a subject; the same applies to an issuer that is not in the settings yet
        for (issuer, count) in [(Self.south, 2), ("https://east.example", 3)] {
            let mapped = try await stage.operate(.POST, path, body(issuer, id.lowercased))
            #expect(mapped.status == 201 && mapped.json?["id"]?.string != id.lowercased, "\(mapped.text)")
            #expect(try Self.users(await stage.operate(.GET, path)).count == count)
        }
        #expect(try await stage.mutations(stage.token(Self.south, id.lowercased, tenant)) == [])
        let elsewhere = try await stage.operate(.POST, Self.path(UUID()), body(Self.north, id.lowercased))
        expectProblem(elsewhere, .notFound, errors: [])
    }

    @Test func `names the errors of a subject and provisions no user`() async throws {
        let fixture = try await TwoTenantFixture()
        let long = String(repeating: "é", count: 128)
        try await fixture.whileNothingChanges {
            for (body, errors) in [
                ("{}", ["/issuer member_required"]), (#"{"issuer":"i"}"#, ["/subject member_required"]),
                (#"{"issuer":"i","subject":""}"#, ["/subject member_range"]),
                (#"{"issuer":"i","subject":7}"#, ["/subject member_range"]),
                (#"{"issuer":"i","subject":"a\u0007"}"#, ["/subject member_range"]),
                (#"{"issuer":"i","subject":"\#(long)"}"#, ["/subject member_range"]),
                (#"{"issuer":null,"subject":"a"}"#, ["/issuer member_range"]),
                (#"{"issuer":"i","subject":"a","id":"x"}"#, ["/id member_unknown"]),
            ] {
                let reply = try await fixture.operate(.POST, fixture.admin + "/users", body)
                expectProblem(reply, .validationFailed, errors: errors)
            }
            let body = #"{"issuer":"i","subject":"a"}"#
            for path in [Self.path(UUID()), "/admin/organizations/x/users"] {
                expectProblem(try await fixture.operate(.POST, path, body), .notFound, errors: [])
            }
        }
    }

    @Test func `lists mutations and merges with the subjects of their users`() async throws {
        let stage = try await TwoProviders()
        let tenant = stage.tenants.shared
        let callers = [
            try stage.token(Self.north, "ada", tenant), try stage.token(Self.south, UUID().lowercased, tenant),
        ]
        for caller in callers {
            try await stage.push(caller)
            try await stage.push(caller)
        }
        let reply = try await stage.operate(.GET, "/admin/organizations/\(tenant.lowercased)/mutations")
        #expect(reply.json?.names == ["mutations", "users", "next"])
        let users = try #require(reply.json?["users"]?.elements.map(Array.init))
        let mutations = try #require(reply.json?["mutations"]?.elements.map(Array.init))
        #expect(mutations.count == 4 && users.count == 2)
        #expect(Set(users.compactMap { $0["id"]?.string }) == Set(mutations.compactMap { $0["user_id"]?.string }))
        let ada = try #require(users.first { $0["subjects"]?.text != "[]" })
        #expect(ada["subjects"]?.text == #"[{"issuer":"https://north.example","subject":"ada"}]"#)
        let other = try #require(users.first { $0["id"]?.string != ada["id"]?.string }?["id"]?.string)
        // the join is not complete yet, and the response has its current state
        stage.gateway.clock.advance(seconds: 1)
        let join = try await stage.operate(
            .POST,
            Self.path(tenant) + "/\(ada["id"]?.string ?? "-")/join",
            #"{"into":"\#(other)"}"#
        )
        #expect(join.status == 202 || join.status == 200, "\(join.text)")
        #expect(join.json?["user_subjects"]?.text == ada["subjects"]?.text)
        #expect(join.json?["into_subjects"]?.text == "[]")
    }

    @Test func `the command lists and provisions users`() async throws {
        let fixture = try await TwoTenantFixture(#"{"provisioning":"explicit"}"#)
        let environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri]
        let organization = fixture.ada.organization.uuidString
        func run(_ words: String...) async throws -> (status: Int32, output: String, complaint: String) {
            let result = try await Program.run(["users"] + words, environment: environment)
            return (result.status, result.output, result.complaint)
        }
        let added = try await run(
            "add",
            "auth0|ada",
            "--issuer",
            "https://acme.example",
            "--organization",
            organization
        )
        #expect(added.status == 0, "\(added)")
        let id = added.output.trimmingCharacters(in: .newlines)
        #expect(UUID(uuidString: id)?.isVersion8 == true, "\(added)")
        _ = try await fixture.operate(.PUT, fixture.admin + "/users/\(fixture.bob.user.lowercased)")
        let listed = try await run("list", "--organization", organization)
        let lines = listed.output.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.contains { $0.hasPrefix(id) && $0.hasSuffix("auth0|ada of https://acme.example") }, "\(listed)")
        let one = try await run(
            "list",
            "--organization",
            organization,
            "--issuer",
            "https://acme.example",
            "--subject",
            "auth0|ada",
            "--json"
        )
        #expect(try JSONTree(parsing: Array(one.output.utf8)).root["id"]?.string == id, "\(one)")
        #expect(try await run("list", "--organization", UUID().uuidString).status == 1)
        let alone = try await run("list", "--organization", organization, "--issuer", "https://acme.example")
        #expect(alone.status == 64 && alone.complaint.contains("--subject"), "\(alone)")
        #expect(try await run("add", "a", "--issuer", "i", "--organization", UUID().uuidString).status == 1)
    }

    @Test func `commands interpret a UUID like tokens of its issuer and merge by subject`() async throws {
        let fixture = try await TwoTenantFixture()
        let issuer = "https://acme.example"
        var environment = [
            "SLUICE_DATABASE_URL": fixture.gateway.database.uri, "SLUICE_JWT_ISSUER": issuer,
            "SLUICE_JWT_SECRET": "a secret of the tests, at least 32 bytes long", "SLUICE_JWT_USER_IDS": "uuid",
        ]
        let organization = fixture.ada.organization.uuidString
        let user = UUID().lowercased
        func run(_ words: String...) async throws -> Program.Result {
            try await Program.run(["users"] + words + ["--organization", organization], environment: environment)
        }
        let own = try await run("add", user)
        #expect(own.status == 0 && own.output == user + "\n", "\(own)")
        let nobody = try await run("add", "auth0|ada")
        #expect(nobody.status == 64 && nobody.complaint.contains("only UUIDs"), "\(nobody)")
        environment["SLUICE_JWT_USER_IDS"] = nil
        for subject in ["auth0|old", "auth0|new"] { #expect(try await run("add", subject).status == 0) }
        let joined = try await run("join", "--subject", "auth0|old", "--into-subject", "auth0|new")
        #expect(joined.status == 0 && joined.output.contains(" is joined into "), "\(joined)")
        #expect(try await run("join", "--subject", "auth0|old", "--into-subject", "auth0|new").status == 0)
        for words in [
            ["--subject", "auth0|nobody", "--into", user], ["--subject", "auth0|new", "--into-subject", "x"],
        ] {
            let result = try await Program.run(
                ["users", "join"] + words + ["--organization", organization],
                environment: environment
            )
            #expect(result.status == 1, "\(result)")
        }
        for words in [
            [user, "--subject", "x", "--into", user], ["--into", user], [user],
            [user, "--into", user, "--issuer", "x"],
            [user, "--into", user, "--into-issuer", "x"],
        ] {
            let result = try await Program.run(
                ["users", "join"] + words + ["--organization", organization],
                environment: environment
            )
            #expect(result.status == 64, "\(words)")
        }
    }

    @Test func `texts from the database cannot control the terminal`() async throws {
        let fixture = try await TwoTenantFixture()
        let name = "A\u{1b}[2J\u{9b}31m\u{202e}\nok       fake\u{7f}"
        try await fixture.execute("UPDATE organizations SET name = E'A\\x1b[2J\\u009b31m\\u202e\\nok       fake\\x7f'")
        #expect(try await fixture.lines("SELECT name FROM organizations LIMIT 1") == [name])
        let environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri]
        for words in [
            ["list"], ["list", "--json"], ["purge", fixture.ada.organization.uuidString],
            ["purge", fixture.ada.organization.uuidString, "--json"],
        ] {
            let result = try await Program.run(["organizations"] + words, environment: environment)
            let shown = (result.output + result.complaint).unicodeScalars
            #expect(
                shown.allSatisfy { $0 == "\n" || ![.control, .format].contains($0.properties.generalCategory) },
                "\(words): \(result)"
            )
            #expect(!(result.output + result.complaint).contains("\nok       fake"), "\(words): \(result)")
            if words.last == "--json" {
                let first = try #require(result.output.split(separator: "\n").first)
                #expect(try JSONTree(parsing: Array(first.utf8)).root["name"]?.string == name)
            }
        }
    }
}
