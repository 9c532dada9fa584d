import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import Postgres
import SyncModel
import SyncStore
import TestSupport
import Testing
import Tokens

/// Tokens name organizations by external ids, and a header chooses among several organizations.
@Suite(.timeLimit(.minutes(10))) struct OrganizationHeaderTests {
    private static let (north, south) = (TwoProviders.north, TwoProviders.south)

    /// Tokens of the provider north contain external ids of organizations as the keys of an object.
    private static func stage() async throws -> TwoProviders {
        let stage = try await TwoProviders { north, _ in
            north.places.organization = .keys(ClaimPlace(named: "organization"))
        }
        try await stage.name("acme", Self.north, stage.tenants.north)
        try await stage.name("höyde 100%", Self.north, stage.tenants.shared)
        return stage
    }

    private static func token(_ stage: TwoProviders, _ names: String) throws -> String {
        try stage.token(Self.north, #""sub":"ada","organization":{\#(names)}"#)
    }

    @Test func `finds an organization by issuer and external id, byte by byte`() async throws {
        let stage = try await TwoProviders()
        try await stage.name("acme", Self.north, stage.tenants.north)
        func reply(_ issuer: String, _ name: String) async throws -> Reply {
            try await stage.get("/v1/mutations", stage.token(issuer, #""sub":"ada","org":"\#(name)""#))
        }
        for _ in 0..<2 { #expect(try await reply(Self.north, "acme").status == 200) }
        // external ids of another issuer and unknown external ids get the same answer
        var refusals: Set<String> = []
        for (issuer, name) in [
            (Self.south, "acme"), (Self.north, "Acme"), (Self.north, " acme"), (Self.north, "nobody"),
            (Self.south, stage.tenants.north.lowercased), (Self.north, UUID().lowercased),
        ] { refusals.insert(stage.refusal(try await reply(issuer, name), .organizationUnknown)) }
        #expect(refusals.count == 1, "\(refusals)")
        // an organization for which its issuer is not trusted gets the same response
        try await stage.name("mine", Self.north, stage.tenants.south)
        refusals.insert(stage.refusal(try await reply(Self.north, "mine"), .organizationUnknown))
        #expect(refusals.count == 1, "\(refusals)")
    }

    @Test func `the header chooses among several organizations`() async throws {
        let stage = try await Self.stage()
        let token = try Self.token(stage, #""acme":{},"höyde 100%":{}"#)
        let first = try await stage.push(token, organization: "acme")
        let second = try await stage.push(token, organization: "h%C3%B6yde%20100%25")
        #expect(try await stage.mutations(token, organization: "acme") == [first])
        #expect(try await stage.mutations(token, organization: "h%c3%b6yde 100%25") == [second])
        #expect(try await stage.mutations(Self.token(stage, #""acme":{}"#)) == [first])
    }

    @Test func `rejects several organizations without the header`() async throws {
        let stage = try await Self.stage()
        let reply = try await stage.get("/v1/mutations", Self.token(stage, #""acme":{},"other":{}"#))
        expectProblem(reply, .organizationUnknown, errors: [])
        #expect(reply.json?["detail"]?.string?.contains("choose one with X-Sluice-Organization") == true)
    }

    /// The header only chooses among the organizations in the token.
    @Test func `rejects an organization missing from the token like an unknown organization`() async throws {
        let stage = try await Self.stage()
        try await stage.name("beta", Self.north, stage.tenants.shared)
        let several = try Self.token(stage, #""acme":{},"other":{}"#)
        let one = try Self.token(stage, #""acme":{}"#)
        var refusals: Set<String> = []
        for token in [several, one] {
            for name in [
                "beta", "nobody", "ACME", "", "%", "%zz", "%ff", "acme, other", "acme,acme",
                stage.tenants.north.lowercased,
                stage.tenants.shared.lowercased, "acme%00",
            ] {
                let reply = try await stage.get("/v1/mutations", token, organization: name)
                refusals.insert(stage.refusal(reply, .organizationUnknown))
            }
        }
        // the organization is in the token, but unknown to the gateway
        refusals.insert(
            stage.refusal(try await stage.get("/v1/mutations", several, organization: "other"), .organizationUnknown)
        )
        #expect(refusals.count == 1, "\(refusals)")
    }

    @Test func `the header must match a UUID in the token`() async throws {
        let stage = try await TwoProviders()
        let token = try stage.token(Self.north, "ada", stage.tenants.north)
        for same in [stage.tenants.north.uuidString, stage.tenants.north.lowercased] {
            #expect(try await stage.get("/v1/mutations", token, organization: same).status == 200)
        }
        for other in [stage.tenants.shared.lowercased, stage.tenants.south.lowercased, UUID().lowercased, "acme"] {
            let reply = try await stage.get("/v1/mutations", token, organization: other)
            expectProblem(reply, .organizationUnknown, errors: [])
        }
    }

    /// A push that is answered from the cache also follows the header.
    @Test func `the header applies to each request separately`() async throws {
        let stage = try await Self.stage()
        let token = try Self.token(stage, #""acme":{},"höyde 100%":{}"#)
        var pushed: [String: Set<String>] = [:]
        for index in 0..<8 {
            let name = index % 2 == 0 ? "acme" : "h%C3%B6yde%20100%25"
            pushed[name, default: []].insert(try await stage.push(token, organization: name))
        }
        for (name, ids) in pushed { #expect(try await stage.mutations(token, organization: name) == ids) }
    }

    @Test func `a fixed organization needs no claim`() async throws {
        let tenant = UUID()
        let stage = try await TwoProviders { north, _ in
            north.places.organization = .fixed(tenant)
            north.organizations = .only([tenant])
        }
        try await stage.gateway.makeOrganization(tenant)
        let plain = try stage.token(Self.north, #""sub":"ada""#)
        let pushed = try await stage.push(plain)
        let other = try stage.token(Self.north, "ada", stage.tenants.north)
        #expect(try await stage.mutations(other) == [pushed], "the organization applies for any claim in the token")
    }
}
