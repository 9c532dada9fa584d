import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing
import Tokens

/// Channels that tokens grant to users, and channels that documents grant to users by issuer and subject.
@Suite struct TokenChannelTests {
    private let stage: TwoProviders
    private let user = UUID()

    init() async throws {
        stage = try await TwoProviders { north, south in
            north.channels = ChannelClaim(ClaimPlace(named: "groups"), prefix: "team/", role: .write)
            south.channels = ChannelClaim(ClaimPlace(named: "groups"), prefix: "team/")
        }
    }

    private var admin: String { "/admin/organizations/\(stage.tenants.shared.lowercased)" }

    /// A request with a token that was issued some seconds ago.
    private func get(
        _ groups: String,
        age: Int64 = 0,
        by issuer: String = TwoProviders.north,
        as user: UUID? = nil
    ) async throws -> Reply {
        let issuedAt = stage.gateway.clock.now.seconds - age
        let names = #""sub":\#((user ?? self.user).quoted),"org":\#(stage.tenants.shared.quoted)"#
        let token = try stage.token(issuer, names + #","iat":\#(issuedAt),"groups":\#(groups)"#)
        let reply = try await stage.get("/v1/changes", token)
        #expect(reply.status == 200, "\(reply.text)")
        return reply
    }

    /// The channels of a user, with their roles, in order.
    private func held(by user: UUID? = nil) async throws -> [String] {
        let reply = try await stage.operate(.GET, admin + "/users/\((user ?? self.user).lowercased)/channels")
        #expect(reply.status == 200, "\(reply.text)")
        let grants = reply.json?["grants"]?.elements.map(Array.init) ?? []
        return grants.map { "\($0["channel"]?.string ?? "-") \($0["role"]?.string ?? "-")" }
    }

    @Test func `the newest token from an issuer decides a user's channels`() async throws {
        _ = try await get(#"["b","a"]"#, age: 50)
        #expect(try await held() == ["team/a write", "team/b write"])
        _ = try await get(#"["b","c"]"#, age: 40)
        #expect(try await held() == ["team/b write", "team/c write"])
        // another device still has an older token
        _ = try await get(#"["b","a"]"#, age: 50)
        _ = try await get(#"["b","a"]"#, age: 45)
        #expect(try await held() == ["team/b write", "team/c write"])
        _ = try await get(#"["b","c"]"#, age: 20)
        _ = try await get(#"["a"]"#, age: 30)
        #expect(
            try await held() == ["team/b write", "team/c write"],
            "a newer token with the same channels takes precedence"
        )
        _ = try await get("[]", age: 10)
        #expect(try await held() == [])
    }

    @Test func `tokens of two issuers and an operator's grants are separate sources`() async throws {
        _ = try await get(#"["a"]"#)
        _ = try await get(#"["a","b"]"#, by: TwoProviders.south)
        let path = admin + "/users/\(user.lowercased)/channels"
        let granted = try await stage.operate(.PUT, path, #"{"channel":"team/b","role":"write"}"#)
        #expect(granted.status == 201, "\(granted.text)")
        #expect(Set(try await held()) == ["team/a write", "team/a read", "team/b read", "team/b write"])
        _ = try await get("[]", by: TwoProviders.south, as: UUID())
        #expect(try await held().count == 4, "a token of another user has no effect")
        stage.gateway.clock.advance(seconds: 1)
        _ = try await get("[]", by: TwoProviders.south)
        #expect(Set(try await held()) == ["team/a write", "team/b write"])
    }

    @Test func `a token gives and removes entities`() async throws {
        let type = #"{"visibility":"channels","channels":["team/{/team}"]}"#
        #expect(try await stage.operate(.PUT, admin + "/entity-types/task", type).status == 201)
        let first = try await get(#"["a"]"#, age: 20)
        let entry =
            #"{"id":\#(UUID().quoted),"idempotency_key":\#(UUID().quoted),"sequence_number":1,"operation":"create","#
            + #""entity_type":"task","local_id":\#(UUID().quoted),"payload":{"team":"a"},"#
            + #""created_at":"2026-11-18T07:00:00.000Z"}"#
        let names = #""sub":\#(user.quoted),"org":\#(stage.tenants.shared.quoted),"iat":1"#
        let pushed = try await send(
            .POST,
            stage.gateway.address + "/v1/mutations",
            token: stage.token(TwoProviders.north, names),
            body: Array(#"{"device_id":\#(UUID().quoted),"mutations":[\#(entry)]}"#.utf8)
        )
        #expect(pushed.statuses == ["succeeded"], "a token from before does not end the grant: \(pushed.text)")
        let since = try #require(first.next)
        let token = try stage.token(TwoProviders.north, names)
        let shown = try await stage.get("/v1/changes?since=\(since)", token)
        #expect(shown.changes.count == 1 && shown.changes.first?["removed"] == nil, "\(shown.text)")
        let next = try #require(shown.next)
        _ = try await get("[]", age: 10)
        let removed = try await stage.get("/v1/changes?since=\(next)", token)
        #expect(removed.changes.map { $0["removed"]?.bool } == [true], "\(removed.text)")
    }

    // MARK: - Subjects in documents

    private func declareCases(_ grants: String, of tenant: UUID) async throws -> Reply {
        let settings = #"{"visibility":"channels","channels":["case/{id}","user/{owner}"],"grants":\#(grants)}"#
        let path = "/admin/organizations/\(tenant.lowercased)/entity-types/case"
        return try await stage.operate(.PUT, path, settings)
    }

    /// Creates a case, and returns its id.
    private func makeCase(_ subject: String, of tenant: UUID) async throws -> String {
        let entry =
            #"{"id":\#(UUID().quoted),"idempotency_key":\#(UUID().quoted),"sequence_number":1,"operation":"create","#
            + #""entity_type":"case","local_id":\#(UUID().quoted),"payload":{"officer":"\#(subject)"},"#
            + #""created_at":"2026-11-18T07:00:00.000Z"}"#
        let issuer = tenant == stage.tenants.south ? TwoProviders.south : TwoProviders.north
        let pushed = try await send(
            .POST,
            stage.gateway.address + "/v1/mutations",
            token: stage.token(issuer, #""sub":\#(user.quoted),"org":\#(tenant.quoted),"iat":1"#),
            body: Array(#"{"device_id":\#(UUID().quoted),"mutations":[\#(entry)]}"#.utf8)
        )
        #expect(pushed.statuses == ["succeeded"], "\(pushed.text)")
        return try #require(pushed.results[0]["server_id"]?.string)
    }

    private func cases(_ subject: String, by issuer: String, of tenant: UUID) async throws -> [String] {
        let names = #""sub":"\#(subject)","org":\#(tenant.quoted),"iat":1"#
        let reply = try await stage.get("/v1/changes", stage.token(issuer, names))
        #expect(reply.status == 200, "\(reply.text)")
        return reply.changes.compactMap { $0["id"]?.string }
    }

    @Test func `a document grants channels to a subject of an issuer before the first token`() async throws {
        let grants =
            #"[{"user":"/officer","issuer":"\#(TwoProviders.north)","channels":["case/{id}"],"role":"write"}]"#
        let (shared, north) = (stage.tenants.shared, stage.tenants.north)
        for tenant in [shared, north] {
            let made = try await declareCases(grants, of: tenant)
            #expect(made.status == 201, "\(made.text)")
            #expect(made.json?["grants"]?.text == grants)
        }
        let id = try await makeCase("auth0|ada", of: shared)
        #expect(try await cases("auth0|ada", by: TwoProviders.north, of: shared) == [id])
        // the same subject of another issuer, another subject, and another organization
        #expect(try await cases("auth0|ada", by: TwoProviders.south, of: shared) == [])
        #expect(try await cases("auth0|bob", by: TwoProviders.north, of: shared) == [])
        #expect(try await cases("auth0|ada", by: TwoProviders.north, of: north) == [])
        // a UUID in a token of this issuer is the user's id, and so it is in a document
        let officer = UUID()
        let theirs = try await makeCase(officer.uuidString, of: shared)
        #expect(try await cases(officer.lowercased, by: TwoProviders.north, of: shared) == [theirs])
    }

    @Test func `rejects a grant with an invalid issuer`() async throws {
        for issuer in ["7", #""a\n""#, #""\#(String(repeating: "i", count: 1_001))""#] {
            let grants = #"[{"user":"/officer","issuer":\#(issuer),"channels":["case/{id}"],"role":"write"}]"#
            let reply = try await declareCases(grants, of: stage.tenants.shared)
            #expect(reply.status == 422, "\(reply.text)")
            #expect(reply.json?["errors"]?.elements.map { $0.map { $0["pointer"]?.string } } == ["/grants/0/issuer"])
        }
    }
}
