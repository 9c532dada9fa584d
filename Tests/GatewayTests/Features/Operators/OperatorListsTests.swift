import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing

/// Search of organizations, entity types, data keys, and probes of upstreams.
@Suite struct OperatorListsTests {
    private func names(_ reply: Reply) -> [String] {
        reply.json?["organizations"]?.elements?.compactMap { $0["name"]?.string } ?? []
    }

    @Test func `finds organizations by part of the name or the beginning of the id`() async throws {
        let fixture = try await TwoTenantFixture()
        for (path, name) in [
            (fixture.admin, "Müller & Söhne"), ("/admin/organizations/\(fixture.eve.organization)", "Acme_100%"),
        ] {
            #expect(try await fixture.act(.PUT, path, #"{"name":"\#(name)"}"#).status == 200)
        }
        func search(_ text: String) async throws -> [String] {
            let encoded = try #require(text.addingPercentEncoding(withAllowedCharacters: .alphanumerics))
            let reply = try await fixture.operate(.GET, "/admin/organizations?search=\(encoded)")
            #expect(reply.status == 200 && reply.next == nil, "\(reply.text)")
            return names(reply)
        }
        for text in [
            "müller", "MÜLLER", "& s", fixture.ada.organization.uuidString, fixture.ada.organization.lowercased,
        ] {
            #expect(try await search(text) == ["Müller & Söhne"], "\(text)")
        }
        #expect(try await search("_100%") == ["Acme_100%"])
        #expect(try await search("%") == ["Acme_100%"])
        #expect(try await search("nobody") == [])
        let long = String(repeating: "x", count: 201)
        expectProblem(try await fixture.operate(.GET, "/admin/organizations?search=\(long)"), .invalidRequest)
        expectProblem(try await fixture.operate(.GET, "/admin/organizations?counts=maybe"), .invalidRequest)
    }

    /// A page searches a limited number of organizations, and has a cursor even if it contains no organization.
    @Test func `a search is limited per page and can be continued`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.execute(
            """
            INSERT INTO organizations (id, name, status, settings, created_at, updated_at)
            SELECT ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid,
                CASE WHEN n % 1500 = 0 THEN 'wanted ' || n ELSE 'other' END, 'active', '{}', now(), now()
            FROM generate_series(1, 4500) n
            """
        )
        var (found, cursor, pages): ([String], String?, Int) = ([], "", 0)
        while let next = cursor {
            let place = next.isEmpty ? "" : "&cursor=\(next)"
            let reply = try await fixture.operate(.GET, "/admin/organizations?search=wanted&limit=1" + place)
            found += names(reply)
            cursor = reply.next
            pages += 1
        }
        #expect(found == ["wanted 1500", "wanted 3000", "wanted 4500"])
        #expect(pages >= 3)
    }

    @Test func `lists entity types by name`() async throws {
        let fixture = try await TwoTenantFixture()
        for name in ["task", "contact", "note"] {
            #expect(try await fixture.act(.PUT, fixture.admin + "/entity-types/\(name)", "{}").status == 201)
        }
        let first = try await fixture.operate(.GET, fixture.admin + "/entity-types?limit=2")
        func types(_ reply: Reply) -> [String?] {
            reply.json?["entity_types"]?.elements?.map { $0["name"]?.string } ?? []
        }
        #expect(types(first) == ["contact", "note"] && first.next == "note")
        let rest = try await fixture.operate(.GET, fixture.admin + "/entity-types?limit=2&cursor=note")
        #expect(types(rest) == ["task"] && rest.next == nil)
        let eves = "/admin/organizations/\(fixture.eve.organization.lowercased)/entity-types"
        #expect(types(try await fixture.operate(.GET, eves)) == [])
        expectProblem(try await fixture.operate(.GET, fixture.admin + "/entity-types?cursor=No"), .invalidRequest)
        let nobody = "/admin/organizations/\(UUID().lowercased)"
        expectProblem(try await fixture.operate(.GET, nobody + "/entity-types"), .notFound, errors: [])
        expectProblem(try await fixture.operate(.GET, nobody + "/keys"), .notFound, errors: [])
    }

    @Test func `lists data keys without key material`() async throws {
        let master = "of-a-test " + String(repeating: "0", count: 8)
        let fixture = try await TwoTenantFixture()
        try await fixture.execute("DELETE FROM organization_keys")
        #expect(try await fixture.operate(.GET, fixture.admin + "/keys").text == #"{"keys":[]}"#)
        try await fixture.execute(
            """
            INSERT INTO organization_keys (organization_id, number, master_key, wrapped_key, created_at)
            SELECT '\(fixture.ada.organization)', n, '\(master)', decode(repeat('ab', 60), 'hex'), '2026-11-01T00:00:00Z'
            FROM generate_series(1, 2) n
            """
        )
        let keys = try await fixture.operate(.GET, fixture.admin + "/keys")
        #expect(keys.json?["keys"]?.elements?.map { $0["number"]?.int64 } == [2, 1])
        #expect(
            keys.json?.value(at: "/keys/0")?.text
                == #"{"number":2,"master_key":"\#(master)","made_at":"2026-11-01T00:00:00.000Z","state":"locked"}"#
        )
        #expect(!keys.text.contains("ababab"))
    }

    @Test func `a probe returns the upstream's response`() async throws {
        let fixture = try await TwoTenantFixture.withOperators()
        let path = fixture.admin + "/upstream/test"
        expectProblem(try await fixture.act(.POST, path), .notFound, errors: [])
        // the other organization's settings are not used
        let host = fixture.gateway.operations
        let upstream = #"{"base_url":"\#(host)","credential":{"bearer":"\#(Operators.reader)"}}"#
        #expect(try await fixture.act(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        let me = try await fixture.act(.POST, path, #"{"path":"/admin/me"}"#)
        #expect(me.status == 200, "\(me.text)")
        #expect(
            me.json?.names == [
                "sent", "status", "headers", "body_excerpt", "error", "outcome_rule", "outcome", "batch", "duration_ms",
            ]
        )
        #expect(me.json?["sent"]?.text == #"{"method":"GET","url":"\#(host)/admin/me"}"#)
        #expect(me.json?["status"]?.int64 == 200 && me.json?["error"]?.isNull == true)
        #expect(me.json?["body_excerpt"]?.string?.contains(#""name":"rita""#) == true)
        #expect(me.json?["headers"]?["content-type"]?.string == "application/json")
        #expect(!me.text.contains(Operators.reader))
        let contract = try await fixture.act(.POST, path, #"{"path":"/console/index.html"}"#)
        #expect((contract.json?["body_excerpt"]?.string?.utf8.count ?? 0) <= 2_048)
        #expect(
            try await fixture.act(.POST, path, #"{"path":"/livez","method":"HEAD"}"#).json?["body_excerpt"]?.string
                == ""
        )
        // the default path redirects to the console, and a probe does not follow redirects
        #expect(try await fixture.act(.POST, path).json?["status"]?.int64 == 302)
        let act = try await fixture.audit("?action=testUpstream&limit=1")[0]
        #expect(act["outcome"]?.text == #"{"status":200,"method":"GET","path":"/"}"#)
        for (body, error) in [
            (#"{"path":"livez"}"#, "/path member_range"), (#"{"path":"/../x"}"#, "/path member_range"),
            (#"{"batch":true}"#, "/batch member_range"), (#"{"batch":1}"#, "/batch member_type"),
            (#"{"method":"DELETE"}"#, "/method member_range"), (#"{"url":"http://x"}"#, "/url member_unknown"),
        ] {
            expectProblem(try await fixture.act(.POST, path, body), .validationFailed, errors: [error])
        }
        let eves = "/admin/organizations/\(fixture.eve.organization.lowercased)/upstream/test"
        expectProblem(try await fixture.act(.POST, eves, #"{"path":"/admin/me"}"#), .notFound, errors: [])
        #expect(
            try await fixture.act(.PUT, fixture.admin + "/upstream", #"{"base_url":"http://127.0.0.1:1"}"#).status
                == 200
        )
        let refused = try await fixture.act(.POST, path, "{}")
        #expect(refused.json?["status"]?.isNull == true && refused.json?["error"]?.string == "connection refused")
    }
}
