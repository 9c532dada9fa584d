import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing
import Tokens

/// Two identity providers, each with a tenant. Tests combine their keys, issuers and organizations.
@Suite(.timeLimit(.minutes(10))) struct IssuersTests {
    private static let (north, south) = ("https://north.example", "https://south.example")

    /// Ada's and Bob's organization belongs to the provider north, and Eve's to the provider south. The ids are fixed
    /// before the gateway starts.
    private struct Fixture {
        let northKey = IdentityKey("k")
        let southKey = IdentityKey("k")
        let southSecret = Array("the secret of the east, of some length".utf8)
        let provider: KeyProvider
        let gateway: LiveGateway
        let tenants = (north: UUID(), south: UUID())

        init() async throws {
            provider = try await KeyProvider(.document(IdentityKey.jwks(southKey)))
            var tokens = TokenConfiguration()
            tokens.otherIssuers = [
                TrustedIssuer(
                    issuer: IssuersTests.north,
                    organizations: .only([tenants.north]),
                    keys: [TokenKeySource(name: "north", text: IdentityKey.jwks(northKey))]
                ),
                TrustedIssuer(
                    issuer: IssuersTests.south,
                    organizations: .only([tenants.south]),
                    jwksURL: provider.url
                ),
                TrustedIssuer(issuer: "https://east.example", organizations: .any, secret: southSecret),
            ]
            gateway = try await .start(tokens: tokens)
            for id in [tenants.north, tenants.south] {
                let reply = try await send(
                    .PUT,
                    gateway.operations + "/admin/organizations/\(id.lowercased)",
                    token: LiveGateway.operatorToken,
                    body: Array(#"{"name":"Tenant"}"#.utf8)
                )
                #expect(reply.status == 201)
            }
            let first = try token(southKey, IssuersTests.south, tenants.south)
            try await waitUntil("its keys are cached") { try await get(first).status != 503 }
        }

        func token(_ key: IdentityKey, _ issuer: String?, _ organization: UUID) throws -> String {
            let expires = gateway.clock.now.seconds + 600
            return try key.token(organization: organization, user: UUID(), issuer: issuer, expires: expires)
        }

        func forged(_ secret: [UInt8], _ issuer: String?, _ organization: UUID, id: String? = "k") -> String {
            let expires = gateway.clock.now.seconds + 600
            return IdentityKey.token(
                secret: secret,
                organization: organization,
                user: UUID(),
                issuer: issuer,
                id: id,
                expires: expires
            )
        }

        func get(_ token: String) async throws -> Reply {
            try await send(.GET, gateway.address + "/v1/changes", token: token)
        }
    }

    @Test func `the key, the issuer and the organization must belong together`() async throws {
        let fixture = try await Fixture()
        let nobodys = UUID()
        var unknown: [String] = []
        for (key, owner) in [(fixture.northKey, Self.north), (fixture.southKey, Self.south)] {
            for issuer in [Self.north, Self.south, nil, "https://west.example"] {
                for (tenant, of) in [
                    (fixture.tenants.north, Self.north), (fixture.tenants.south, Self.south), (nobodys, ""),
                ] {
                    let reply = try await fixture.get(try fixture.token(key, issuer, tenant))
                    if owner != issuer {
                        expectProblem(reply, .unauthorized, errors: [])
                    } else if of != issuer {
                        expectProblem(reply, .organizationUnknown, errors: [])
                        let id = reply.json?["request_id"]?.string ?? "-"
                        unknown.append(reply.text.replacingOccurrences(of: id, with: "ID"))
                    } else {
                        #expect(reply.status == 200)
                    }
                }
            }
        }
        // the tenant of another issuer gets the same answer as an unknown tenant
        #expect(unknown.count == 4)
        #expect(Set(unknown).count == 1)
        let anybody = fixture.forged(fixture.southSecret, "https://east.example", nobodys)
        let really = try await fixture.get(anybody)
        let id = really.json?["request_id"]?.string ?? "-"
        #expect(really.text.replacingOccurrences(of: id, with: "ID") == unknown.first)
    }

    @Test func `a secret is valid only for its issuer and a public key is not a secret`() async throws {
        let fixture = try await Fixture()
        for tenant in [fixture.tenants.north, fixture.tenants.south] {
            for issuer in [Self.north, Self.south, nil] {
                for secret in [
                    fixture.southSecret, Array(fixture.northKey.pem.utf8), Array(fixture.southKey.jwk.utf8),
                    Array(IdentityKey.jwks(fixture.southKey).utf8),
                ] {
                    for id in ["k", nil] {
                        expectProblem(
                            try await fixture.get(fixture.forged(secret, issuer, tenant, id: id)),
                            .unauthorized,
                            errors: []
                        )
                    }
                }
            }
            #expect(
                try await fixture.get(fixture.forged(fixture.southSecret, "https://east.example", tenant)).status == 200
            )
            expectProblem(
                try await fixture.get(try fixture.token(fixture.northKey, "https://east.example", tenant)),
                .unauthorized,
                errors: []
            )
        }
    }

    @Test func `an outage of one issuer does not affect another issuer`() async throws {
        let fixture = try await Fixture()
        try await fixture.provider.end()
        fixture.gateway.clock.advance(seconds: 599)
        let north = try fixture.token(fixture.northKey, Self.north, fixture.tenants.north)
        let south = try fixture.token(fixture.southKey, Self.south, fixture.tenants.south)
        #expect(try await fixture.get(north).status == 200)
        #expect(try await fixture.get(south).status == 200)
    }

    @Test func `reloads the issuers file`() async throws {
        let (key, secret) = (IdentityKey("k"), try TemporaryFile("the secret of the south, of some length\n"))
        let keys = try TemporaryFile(IdentityKey.jwks(key))
        let (first, second) = (UUID(), UUID())
        func text(_ organizations: String) -> String {
            #"{"issuers":[{"issuer":"\#(Self.north)","keys_file":"\#(keys.path)","organizations":\#(organizations)},"#
                + #"{"issuer":"\#(Self.south)","secret_file":"\#(secret.path)","organizations":"any"}]}"#
        }
        let file = try TemporaryFile(text("[\(first.quoted)]"))
        let database = try await LiveGateway.migratedDatabase()
        let gateway = try await GatewayProcess.start(
            database: database.uri,
            settings: [
                "SLUICE_JWT_SECRET": "", "SLUICE_JWT_ISSUERS_FILE": file.path, "SLUICE_JWT_EXCLUSIVE_KEYS": "yes",
            ]
        )
        try await gateway.makeOrganization(first)
        try await gateway.makeOrganization(second)
        let expires = Int64(Date.now.timeIntervalSince1970) + 600
        func status(_ organization: UUID) async throws -> Int {
            let token = try key.token(organization: organization, user: UUID(), issuer: Self.north, expires: expires)
            return try await GatewayProcess.get(gateway.address + "/v1/changes", token: token).status
        }
        #expect(try await status(first) == 200)
        #expect(try await status(second) == 403)
        let south = IdentityKey.token(
            secret: Array("the secret of the south, of some length".utf8),
            organization: second,
            user: UUID(),
            issuer: Self.south,
            expires: expires
        )
        #expect(try await GatewayProcess.get(gateway.address + "/v1/changes", token: south).status == 200)
        try text("[\(second.quoted)]").write(toFile: file.path, atomically: true, encoding: .utf8)
        try await waitUntil("the file is read again", every: .milliseconds(50)) { try await status(first) != 200 }
        #expect(try await status(first) == 403)
        #expect(try await status(second) == 200)
    }
}
