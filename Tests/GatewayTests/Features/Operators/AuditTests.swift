import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// `/admin/audit`, and its entries.
@Suite struct AuditTests {
    @Test func `an audit entry contains the actor, action, reason, time and outcome`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let reason = "Kunde rief an: „bitte“"
        let encoded = try #require(reason.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
        let body = #"{"name":"Hush","settings":{"on_failure":"halt"}}"#
        let request = [("Sluice-Reason", encoded), ("X-Request-ID", "r-1")]
        #expect(try await fixture.call(.PUT, fixture.admin, as: Operators.admin, body, request).status == 200)
        let acts = try await fixture.audit("?actor=anna")
        let act = try #require(acts.first)
        #expect(acts.count == 1)
        #expect(
            act.names == [
                "id", "at", "organization_id", "actor", "scope", "action", "reason", "target", "outcome", "request_id",
            ]
        )
        #expect(act["organization_id"]?.string == fixture.ada.organization.lowercased)
        #expect(act["at"]?.string == fixture.gateway.clock.now.rfc3339)
        #expect(act["scope"]?.string == "admin" && act["action"]?.string == "putOrganization")
        #expect(act["reason"]?.string == reason && act["request_id"]?.string == "r-1")
        #expect(act["target"]?.text == "{}")
        #expect(act["outcome"]?.text == #"{"status":200,"members":["name","settings"]}"#)
        #expect(!act.text.contains("Hush"))
    }

    @Test func `rejected actions are audited without secrets`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let upstream = #"{"base_url":"http://127.0.0.1:1","credential":{"bearer":"hush-hush"}}"#
        #expect(try await fixture.act(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        #expect(try await fixture.act(.PUT, fixture.admin + "/upstream", #"{"base_url":7}"#).status == 422)
        #expect(try await fixture.act(.DELETE, fixture.admin + "/webhooks/\(UUID())").status == 404)
        let made = try await fixture.act(.POST, fixture.admin + "/service-tokens", #"{"source":"crm"}"#)
        let secret = try #require(made.json?["token"]?.string)
        let acts = try await fixture.audit("?organization_id=\(fixture.ada.organization)&limit=4")
        #expect(
            acts.compactMap { $0["action"]?.string } == [
                "makeServiceToken", "deleteWebhook", "putUpstream", "putUpstream",
            ]
        )
        #expect(acts[1]["outcome"]?.text == #"{"status":404,"code":"not_found"}"#)
        #expect(acts[1]["target"]?.names == ["webhook"])
        #expect(acts[2]["outcome"]?["code"]?.string == "validation_failed")
        for word in ["hush-hush", secret, String(secret.suffix(20))] {
            #expect(try await fixture.mentions(of: word)["audit"] == 0, "\(word)")
        }
        let settled = try await fixture.act(
            .POST,
            fixture.admin + "/mutations/retry",
            #"{"filter":{"status":["failed"]}}"#
        )
        #expect(settled.status == 200)
        let last = try await fixture.audit("?limit=1")[0]
        #expect(
            last["outcome"]?.text
                == #"{"status":200,"members":["filter"],"statuses":["failed"],"matched":0,"retried":0}"#
        )
    }

    @Test func `rejects an invalid reason before anything happens`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let long = String(repeating: "x", count: 501)
        for reason in ["%", "%zz", "%00", "%0a", "a%1fb", "%ff", long] {
            let reply = try await fixture.act(
                .PUT,
                fixture.admin,
                #"{"name":"Other"}"#,
                headers: [("Sluice-Reason", reason)]
            )
            expectProblem(reply, .invalidRequest, errors: [" header_invalid"])
        }
        #expect(try await fixture.operate(.GET, fixture.admin).json?["name"]?.string != "Other")
        let longest = String(repeating: "%C3%A9", count: 250)
        let taken = try await fixture.act(
            .PUT,
            fixture.admin,
            #"{"name":"Other"}"#,
            headers: [("Sluice-Reason", longest)]
        )
        #expect(taken.status == 200)
        #expect(try await fixture.audit("?limit=1")[0]["reason"]?.string == String(repeating: "é", count: 250))
    }

    @Test func `only reads of users' payloads are audited`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        _ = try await fixture.ada.push([fixture.ada.create()])
        let user = fixture.admin + "/users/\(fixture.ada.user.lowercased)"
        for path in [fixture.admin, fixture.admin + "/users", user, "/admin/now", "/admin/audit", "/admin/retention"] {
            #expect(try await fixture.call(.GET, path, as: Operators.reader).status == 200)
        }
        #expect(try await fixture.audit("?actor=rita").isEmpty)
        #expect(try await fixture.call(.GET, fixture.admin + "/mutations", as: Operators.settler).status == 200)
        #expect(try await fixture.call(.GET, user + "/export", as: Operators.admin).status == 200)
        let look = try await fixture.audit("?actor=sam")
        #expect(look.map { $0["action"]?.string } == ["listOrganizationMutations"])
        let export = try await fixture.audit("?actor=anna")[0]
        #expect(export["target"]?.text == #"{"user":"\#(fixture.ada.user.lowercased)"}"#)
        #expect(export["action"]?.string == "exportUser" && export["outcome"]?.text == #"{"status":200}"#)
    }

    @Test func `filters and pages the audit log`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        for number in 0..<5 {
            fixture.gateway.clock.advance(seconds: 10)
            let token = number.isMultiple(of: 2) ? Operators.admin : LiveGateway.operatorToken
            #expect(try await fixture.call(.PUT, fixture.admin, as: token, #"{"name":"\#(number)"}"#).status == 200)
        }
        let all = try await fixture.audit("?limit=1000").compactMap { $0["id"]?.string }
        #expect(all.count == 7 && all == all.sorted(by: >))
        var (seen, cursor): ([String], String?) = ([], "")
        while let next = cursor {
            let page = try await fixture.operate(.GET, "/admin/audit?limit=2" + (next.isEmpty ? "" : "&cursor=\(next)"))
            let ids = page.json?["audit"]?.elements.map { $0.compactMap { $0["id"]?.string } } ?? []
            #expect(ids.count <= 2)
            seen += ids
            cursor = page.next
        }
        #expect(seen == all)
        let now = fixture.gateway.clock.now
        #expect(try await fixture.audit("?actor=anna").count == 3)
        #expect(
            try await fixture.audit("?action=putOrganization&organization_id=\(fixture.ada.organization)").count == 6
        )
        #expect(try await fixture.audit("?organization_id=\(fixture.eve.organization)").count == 1)
        #expect(try await fixture.audit("?since=\(now.adding(seconds: -20.5).rfc3339)").count == 3)
        #expect(try await fixture.audit("?until=\(now.adding(seconds: -20.5).rfc3339)&actor=operator").count == 3)
        #expect(try await fixture.audit("?actor=nobody").isEmpty)
        for wrong in ["?since=yesterday", "?cursor=x", "?organization_id=x", "?limit=0", "?who=anna"] {
            expectProblem(try await fixture.operate(.GET, "/admin/audit" + wrong), .invalidRequest)
        }
    }

    @Test func `a purge keeps the audit entries, but removes the users from them`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let user = fixture.admin + "/users/\(fixture.ada.user.lowercased)"
        #expect(try await fixture.call(.PUT, user, as: Operators.admin).status < 300)
        let eves = "/admin/organizations/\(fixture.eve.organization.lowercased)/users/\(fixture.eve.user.lowercased)"
        #expect(try await fixture.call(.PUT, eves, as: Operators.admin).status < 300)
        #expect(try await fixture.call(.DELETE, fixture.admin, as: Operators.admin).status == 204)
        let acts = try await fixture.audit("?actor=anna")
        #expect(acts.map { $0["action"]?.string } == ["deleteOrganization", "putUser", "putUser"])
        #expect(acts[0]["outcome"]?.text == #"{"status":204}"#)
        #expect(acts[1]["target"]?["user"]?.string == fixture.eve.user.lowercased)
        #expect(acts[2]["target"]?.text == "{}")
        #expect(try await fixture.mentions(of: fixture.ada.user.lowercased).filter { $0.value > 0 } == [:])
    }

    @Test func `audit entries of an erased user contain only a hash, whenever they were written`() async throws {
        let fixture = try await TwoTenantFixture { $0.joinTimeout = .zero }
        _ = try await fixture.ada.push([fixture.ada.create()])
        let user = fixture.admin + "/users/\(fixture.ada.user.lowercased)"
        #expect(try await fixture.act(.GET, user + "/export").status == 200)
        #expect(try await fixture.act(.DELETE, user + "?erase=true").status == 202)
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await fixture.act(.DELETE, user + "?erase=true").status == 200)
        expectProblem(try await fixture.act(.PUT, user), .userErased, errors: [])
        let users = try await fixture.audit("?organization_id=\(fixture.ada.organization)&limit=4")
            .map { $0["target"]?["user"]?.string ?? "-" }
        #expect(Set(users).count == 1 && users[0].hasPrefix("erased:"), "\(users)")
        #expect(try await fixture.mentions(of: fixture.ada.user.lowercased).filter { $0.value > 0 } == [:])
    }

    /// Expects that neither a change nor an audited read is performed.
    private func expectNothingDone(_ fixture: TwoTenantFixture) async throws {
        for reply in [
            try await fixture.act(.PUT, fixture.admin, #"{"name":"Other"}"#),
            try await fixture.act(.GET, fixture.admin + "/mutations"),
        ] {
            expectProblem(reply, .storeUnavailable, errors: [])
            #expect(reply.header("retry-after") == ["2"])
        }
    }

    @Test func `an action fails if its audit entry cannot be written`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        try await fixture.execute("ALTER TABLE audit RENAME TO audit_away")
        try await expectNothingDone(fixture)
        try await fixture.execute("ALTER TABLE audit_away RENAME TO audit")
        #expect(try await fixture.operate(.GET, fixture.admin).json?["name"]?.string != "Other")
    }

    /// The error codes are those of a trigger, a read-only database and a missing privilege.
    @Test(.onOneServer("has a trigger on a table"), arguments: ["P0001", "25006", "42501"])
    func `an action fails if the database rejects its audit entry for any reason`(state: String) async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        try await fixture.execute(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '\(state)'; END $$;
            CREATE TRIGGER refuse BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION refuse();
            """
        )
        try await expectNothingDone(fixture)
        try await fixture.execute("DROP TRIGGER refuse ON audit")
        #expect(try await fixture.operate(.GET, fixture.admin).json?["name"]?.string != "Other")
        #expect(try await fixture.act(.PUT, fixture.admin, #"{"name":"Other"}"#).status == 200)
    }

    @Test func `the audit entry names the user of an action whose path does not contain the user`() async throws {
        let fixture = try await TwoTenantFixture { $0.joinTimeout = .zero }
        _ = try await fixture.ada.push([fixture.ada.create()])
        let (ada, device) = (fixture.ada.user.lowercased, fixture.ada.device.lowercased)
        let (users, mutations) = (fixture.admin + "/users", fixture.admin + "/mutations")
        let subject = #"{"issuer":"https://north.example","subject":"auth0|grace"}"#
        let made = try await fixture.act(.POST, users, subject)
        #expect(made.status == 201, "\(made.text)")
        let grace = try #require(made.json?["id"]?.string)
        #expect(try await fixture.act(.GET, "\(mutations)?user_id=\(ada)&device_id=\(device)").status == 200)
        #expect(try await fixture.act(.GET, "\(mutations)?device_id=\(device)").status == 200)
        #expect(try await fixture.act(.DELETE, "\(users)/\(grace)").status == 204)
        #expect(try await fixture.act(.DELETE, "\(users)/\(ada)?erase=true").status == 202)
        let targets = try await fixture.audit("?limit=5").map { $0["target"]?.text ?? "-" }
        #expect(
            targets == [
                #"{"user":"\#(ada)","erase":"true"}"#, #"{"user":"\#(grace)"}"#, #"{"of_one_device":"true"}"#,
                #"{"user":"\#(ada)","device_id":"\#(device)"}"#, #"{"user":"\#(grace)"}"#,
            ]
        )
        // data that identifies the erased user is removed; the entry of the erasure stays
        fixture.gateway.clock.advance(seconds: 9)
        #expect(try await fixture.act(.DELETE, "\(users)/\(ada)?erase=true").status == 200)
        let acts = try await fixture.audit("?limit=6")
        #expect(acts.map { $0["target"]?["erase"]?.string } == ["true", "true", nil, nil, nil, nil])
        #expect(acts[4]["target"]?.names == ["user"])
        for act in [acts[0], acts[1], acts[4]] {
            #expect(act["target"]?["user"]?.string?.hasPrefix("erased:") == true)
        }
        #expect(try await fixture.mentions(of: device)["audit"] == 0)
    }

    @Test func `the audit entry contains the number of retried deliveries`() async throws {
        let fixture = try await TwoTenantFixture()
        let webhooks = fixture.admin + "/webhooks"
        let made = try await fixture.act(.POST, webhooks, #"{"url":"https://hooks.example/sluice"}"#)
        let id = try #require(made.json?["id"]?.string)
        let retried = try await fixture.act(.POST, "\(webhooks)/\(id)/deliveries/retry")
        #expect(retried.text == #"{"retried":0}"#)
        #expect(try await fixture.audit("?limit=1")[0]["outcome"]?.text == #"{"status":200,"retried":0}"#)
    }

    /// A completed action is reported as completed, even if its audit entry's outcome cannot be written.
    @Test(.onOneServer("has a trigger on a table")) func `a completed action is answered`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        try await fixture.execute(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
            CREATE TRIGGER refuse BEFORE UPDATE ON audit FOR EACH ROW EXECUTE FUNCTION refuse();
            """
        )
        #expect(try await fixture.act(.PUT, fixture.admin, #"{"name":"Other"}"#).status == 200)
        #expect(try await fixture.operate(.GET, fixture.admin).json?["name"]?.string == "Other")
        #expect(try await fixture.audit("?limit=1")[0]["outcome"]?.isNull == true)
        #expect(try await fixture.metrics().contains("sluice_audit_unfinished_total 1"))
    }

    @Test func `commands are audited and a command lists the audit log`() async throws {
        let fixture = try await TwoTenantFixture()
        let environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri, "SUDO_USER": "ida"]
        let id = fixture.ada.organization.lowercased
        let done = try await Program.run(
            ["organizations", "suspend", id, "--reason", "does not pay"],
            environment: environment
        )
        #expect(done.status == 0, "\(done.complaint)")
        let listed = try await Program.run(["organizations", "list"], environment: environment)
        #expect(listed.status == 0)
        let act = try #require(try await fixture.audit("?actor=cli:ida").first)
        #expect(act["action"]?.string == "putOrganization" && act["scope"]?.string == "admin")
        #expect(act["reason"]?.string == "does not pay")
        #expect(act["target"]?.text == #"{"status":"suspended"}"# && act["outcome"]?.text == #"{"status":"ok"}"#)
        #expect(try await fixture.audit("?actor=cli:ida").count == 1)
        let shown = try await Program.run(["audit", "--organization", id, "--limit", "1"], environment: environment)
        #expect(shown.status == 0, "\(shown.complaint)")
        #expect(shown.output.contains("cli:ida  putOrganization  of \(id)"))
        #expect(shown.output.contains("because: does not pay"))
        let json = try await Program.run(["audit", "--json", "--actor", "cli:ida"], environment: environment)
        #expect(json.output == act.text + "\n")
        let none = try await Program.run(["audit", "--actor", "nobody"], environment: environment)
        #expect(none.output == "" && none.complaint.contains("no matching actions"))
        let failed = try await Program.run(
            ["organizations", "suspend", id, "--reason", "a\u{7}"],
            environment: environment
        )
        #expect(failed.status == 64)
        let unknown = try await Program.run(
            ["users", "erase", UUID().uuidString, "--organization", id, "--yes"],
            environment: environment
        )
        #expect(unknown.status == 1)
        #expect(
            try await fixture.audit("?actor=cli:ida").map { $0["action"]?.string } == ["deleteUser", "putOrganization"]
        )
    }
}
