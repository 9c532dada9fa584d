import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import SyncModel
import SyncStore
import TestSupport
import Testing
import Tokens

/// Users whom their provider identifies by a text.
@Suite(.timeLimit(.minutes(10))) struct SubjectsTests {
    private static let (north, south) = (TwoProviders.north, TwoProviders.south)

    /// The id that was generated for a subject.
    private static func id(_ subject: String, _ issuer: String, _ organization: UUID, _ stage: TwoProviders)
        async throws
        -> String
    {
        let connection = try await stage.gateway.database.connect()
        defer { connection.close() }
        let statement = Statement(
            "",
            """
            SELECT user_id::text FROM user_subjects
            WHERE organization_id = '\(organization)' AND issuer = '\(issuer)' AND subject = '\(subject)'
            """
        )
        return try await connection.run(Query(statement)).read(0, 0, as: String.self)
    }

    @Test func `a subject is one user for all tokens and devices`() async throws {
        let stage = try await TwoProviders()
        let ada = try stage.token(Self.north, "auth0|ada", stage.tenants.north)
        #expect(try await stage.mutations(ada) == [], "a read provisions the user like a push")
        let first = try await stage.push(ada)
        let again = try stage.token(Self.north, #""sub":"auth0|ada","org":\#(stage.tenants.north.quoted),"x":1"#)
        let second = try await stage.push(again)
        stage.gateway.store.identities.invalidate()
        #expect(try await stage.mutations(ada) == [first, second])
        for other in ["auth0|Ada", "auth0|ada ", "auth0|eve"] {
            #expect(try await stage.mutations(stage.token(Self.north, other, stage.tenants.north)) == [])
        }
        let id = try await Self.id("auth0|ada", Self.north, stage.tenants.north, stage)
        #expect(UUID(uuidString: id)?.isVersion8 == true)
    }

    @Test func `equal subjects of two issuers or organizations are separate users`() async throws {
        let stage = try await TwoProviders()
        let callers = [
            try stage.token(Self.north, "7", stage.tenants.shared),
            try stage.token(Self.south, "7", stage.tenants.shared),
            try stage.token(Self.north, "7", stage.tenants.north),
            try stage.token(Self.south, "7", stage.tenants.south),
        ]
        var pushed: [String] = []
        for caller in callers { pushed.append(try await stage.push(caller)) }
        for (caller, id) in zip(callers, pushed) { #expect(try await stage.mutations(caller) == [id]) }
        var ids: Set<String> = []
        for (issuer, tenant) in [
            (Self.north, stage.tenants.shared), (Self.south, stage.tenants.shared), (Self.north, stage.tenants.north),
            (Self.south, stage.tenants.south),
        ] { ids.insert(try await Self.id("7", issuer, tenant, stage)) }
        #expect(ids.count == 4)
    }

    /// Colleagues see a generated id in the feed, and the administrator of another provider can put it into a token.
    @Test func `a generated user id in a token does not impersonate its user`() async throws {
        let stage = try await TwoProviders()
        let ada = try stage.token(Self.north, "auth0|ada", stage.tenants.shared)
        let own = try await stage.push(ada)
        let id = try await Self.id("auth0|ada", Self.north, stage.tenants.shared, stage)
        for issuer in [Self.south, Self.north] {
            for text in [id, id.uppercased()] {
                let thief = try stage.token(issuer, text, stage.tenants.shared)
                for _ in 0..<2 {
                    let reply = try await stage.get("/v1/mutations", thief)
                    expectProblem(reply, .userUnknown, errors: [])
                }
            }
        }
        // in another organization the id is unused
        let elsewhere = try stage.token(Self.south, id, stage.tenants.south)
        #expect(try await stage.mutations(elsewhere) == [])
        #expect(try await stage.mutations(ada) == [own])
        // other UUIDs of the same version are ordinary ids
        let other = UUID.version8().lowercased
        let fresh = try stage.token(Self.south, other, stage.tenants.shared)
        let pushed = try await stage.push(fresh)
        #expect(try await stage.mutations(fresh) == [pushed])
    }

    @Test func `a UUID is the user's own id unless the provider's users are mapped`() async throws {
        let stage = try await TwoProviders { _, south in south.places.userForm = .mapped }
        let user = UUID().lowercased
        let northern = try stage.token(Self.north, user, stage.tenants.shared)
        let southern = try stage.token(Self.south, user, stage.tenants.shared)
        let pushed = [try await stage.push(northern), try await stage.push(southern)]
        #expect(try await stage.mutations(northern) == [pushed[0]])
        #expect(try await stage.mutations(southern) == [pushed[1]])
        #expect(
            try await stage.mutations(stage.token(Self.north, user.uppercased(), stage.tenants.shared)) == [pushed[0]]
        )
        #expect(try await stage.mutations(stage.token(Self.south, user.uppercased(), stage.tenants.shared)) == [])
        #expect(try await Self.id(user, Self.south, stage.tenants.shared, stage) != user)
    }

    @Test func `issuers that share a namespace share their users`() async throws {
        let stage = try await TwoProviders { north, south in
            north.namespace = "acme"
            south.namespace = "acme"
        }
        let pushed = try await stage.push(stage.token(Self.north, "u", stage.tenants.shared))
        #expect(try await stage.mutations(stage.token(Self.south, "u", stage.tenants.shared)) == [pushed])
    }

    @Test func `with explicit provisioning an unprovisioned subject is rejected`() async throws {
        let stage = try await TwoProviders(#"{"provisioning":"explicit"}"#)
        let ada = try stage.token(Self.north, "auth0|ada", stage.tenants.north)
        for _ in 0..<2 {
            expectProblem(try await stage.get("/v1/mutations", ada), .userUnknown, errors: [])
        }
        // the subject was mapped, but its user was deleted; the subject alone gives no access
        let id = UUID.version8()
        try await stage.execute(
            """
            INSERT INTO user_subjects (organization_id, issuer, subject, user_id, created_at)
            VALUES ('\(stage.tenants.north)', '\(Self.north)', 'auth0|ada', '\(id)', now())
            """
        )
        stage.gateway.clock.advance(seconds: 6)
        expectProblem(try await stage.get("/v1/mutations", ada), .userUnknown, errors: [])
        let path = "/admin/organizations/\(stage.tenants.north.lowercased)/users/\(id.lowercased)"
        let reply = try await send(.PUT, stage.gateway.operations + path, token: LiveGateway.operatorToken)
        #expect(reply.status == 201)
        let pushed = try await stage.push(ada)
        #expect(try await stage.mutations(ada) == [pushed])
    }

    @Test func `rejects a subject that cannot be stored instead of shortening it`() async throws {
        let stage = try await TwoProviders()
        let organization = stage.tenants.north.quoted
        let longest = String(repeating: "é", count: 127) + "x"
        #expect(
            try await stage.get("/v1/mutations", stage.token(Self.north, longest, stage.tenants.north)).status == 200
        )
        for subject in [#""""#, #""\#(longest)x""#, #""a\nb""#, #""\u007f""#, "7", "null", "[]", #"["a"]"#] {
            let token = try stage.token(Self.north, #""sub":\#(subject),"org":\#(organization)"#)
            let reply = try await stage.get("/v1/mutations", token)
            expectProblem(reply, .unauthorized, errors: [])
            let detail = "Claim `sub` of the token must be a text of 1 to 255 bytes without control characters."
            #expect(reply.json?["detail"]?.string == detail, "\(subject)")
        }
    }

    @Test func `a subject appears in no metric and no response of v1`() async throws {
        let stage = try await TwoProviders()
        let secret = "somebody@north.example"
        let token = try stage.token(Self.north, secret, stage.tenants.north)
        try await stage.push(token)
        for path in ["/v1/mutations", "/v1/changes", "/v1/id-mappings", "/v1/backlog"] {
            let reply = try await stage.get(path, token)
            #expect(reply.status == 200 && !reply.text.contains("somebody"), "\(path)")
        }
        let metrics = try await send(.GET, stage.gateway.operations + "/metrics").text
        #expect(!metrics.contains("somebody"))
        #expect(metrics.contains(#"sluice_identity_lookups_total{outcome="made"} 1"#), "\(metrics)")
    }
}
