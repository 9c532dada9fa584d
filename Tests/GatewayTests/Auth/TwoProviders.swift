import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import SyncHTTP
import SyncModel
import SyncStore
import TestSupport
import Testing
import Tokens

/// Two identity providers and three organizations: one for each provider, and one for both.
struct TwoProviders: Sendable {
    static let (north, south) = ("https://north.example", "https://south.example")

    let northKey = IdentityKey("n")
    let southKey = IdentityKey("s")
    let gateway: LiveGateway
    let tenants = (north: UUID(), south: UUID(), shared: UUID())
    let tokens: TokenConfiguration

    /// - Parameters:
    ///   - settings: the settings of each organization.
    ///   - configure: changes the issuers.
    ///   - serving: changes the servers' settings.
    init(
        _ settings: String = "{}",
        configure: (_ north: inout TrustedIssuer, _ south: inout TrustedIssuer) -> Void = { _, _ in },
        serving: (inout HTTPConfiguration) -> Void = { _ in }
    ) async throws {
        var north = TrustedIssuer(
            issuer: Self.north,
            organizations: .only([tenants.north, tenants.shared]),
            keys: [TokenKeySource(name: "north", text: IdentityKey.jwks(northKey))]
        )
        var south = TrustedIssuer(
            issuer: Self.south,
            organizations: .only([tenants.south, tenants.shared]),
            keys: [TokenKeySource(name: "south", text: IdentityKey.jwks(southKey))]
        )
        configure(&north, &south)
        var tokens = TokenConfiguration()
        tokens.otherIssuers = [north, south]
        self.tokens = tokens
        gateway = try await .start(tokens: tokens) { configuration in
            configuration.joinTimeout = .zero
            serving(&configuration)
        }
        for id in [tenants.north, tenants.south, tenants.shared] {
            try await gateway.makeOrganization(id, settings: settings)
        }
    }

    /// Returns a token of one of the two providers, with members of its payload as JSON text.
    func token(_ issuer: String, _ members: String) throws -> String {
        let key = issuer == Self.north ? northKey : southKey
        let expires = gateway.clock.now.seconds + 600
        return try key.token(claims: #"{"iss":"\#(issuer)","exp":\#(expires),\#(members)}"#)
    }

    /// Returns a token of one of the two providers for a user of an organization.
    func token(_ issuer: String, _ subject: String, _ organization: UUID) throws -> String {
        try token(issuer, #""sub":"\#(subject)","org":\#(organization.quoted)"#)
    }

    func get(_ path: String, _ token: String, organization: String? = nil) async throws -> Reply {
        let headers = organization.map { [("X-Sluice-Organization", $0)] } ?? []
        return try await send(.GET, gateway.address + path, token: token, headers: headers)
    }

    /// A call of the operator.
    func operate(_ method: HTTPMethod, _ path: String, _ body: String? = nil) async throws -> Reply {
        try await send(
            method,
            gateway.operations + path,
            token: LiveGateway.operatorToken,
            body: body.map { Array($0.utf8) }
        )
    }

    /// Pushes one create and returns its id.
    @discardableResult
    func push(_ token: String, organization: String? = nil) async throws -> String {
        let id = UUID()
        let entry =
            #"{"id":\#(id.quoted),"idempotency_key":\#(UUID().quoted),"sequence_number":1,"operation":"create","#
            + #""entity_type":"task","local_id":\#(UUID().quoted),"payload":{},"created_at":"2026-11-18T07:00:00.000Z"}"#
        let body = #"{"device_id":\#(UUID().quoted),"mutations":[\#(entry)]}"#
        let headers = organization.map { [("X-Sluice-Organization", $0)] } ?? []
        let reply = try await send(
            .POST,
            gateway.address + "/v1/mutations",
            token: token,
            headers: headers,
            body: Array(body.utf8)
        )
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        return id.lowercased
    }

    /// The ids of a caller's own mutations.
    func mutations(_ token: String, organization: String? = nil) async throws -> Set<String> {
        let reply = try await get("/v1/mutations", token, organization: organization)
        #expect(reply.status == 200, "\(reply.text)")
        let list = reply.json?["mutations"]?.elements.map { $0.compactMap { $0["id"]?.string } }
        return Set(list ?? [])
    }

    /// The text of a rejection without the request's id.
    func refusal(_ reply: Reply, _ code: ProblemCode) -> String {
        expectProblem(reply, code, errors: [])
        return reply.text.replacing(reply.json?["request_id"]?.string ?? "-", with: "ID")
    }

    /// Gives an organization an external id at one of the two providers.
    func name(_ name: String, _ issuer: String, _ organization: UUID) async throws {
        try await execute(
            """
            INSERT INTO external_ids (organization_id, issuer, external_id, created_at)
            VALUES ('\(organization)', '\(issuer)', '\(name)', now())
            """
        )
        gateway.store.identities.invalidate()
    }

    func execute(_ script: String) async throws {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        try await connection.execute(script: script)
    }
}
