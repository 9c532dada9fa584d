import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing
import Tokens

/// Event streams and long polls of callers who lose access, or whose identity changes.
@Suite(.timeLimit(.minutes(10))) struct LongLivedSessionTests {
    private static let (north, south) = (TwoProviders.north, TwoProviders.south)

    /// Returns a gateway that checks access often, and whose interval of keep-alives is longer than a test.
    private static func stage(_ settings: String = "{}") async throws -> TwoProviders {
        try await TwoProviders(
            settings,
            serving: { configuration in
                configuration.streamCheckInterval = .milliseconds(50)
                configuration.checkInterval = .milliseconds(50)
                configuration.keepAlive = .seconds(3_600)
            }
        )
    }

    private static func listen(_ stage: TwoProviders, _ token: String) async throws -> EventListener {
        let events = try await EventListener(stage.gateway.address, token: token)
        #expect(try await events.next()?.retry != nil)
        return events
    }

    /// Whether a stream is still open and reports its user's actions.
    private static func hears(_ events: EventListener, _ stage: TwoProviders, _ token: String) async throws -> Bool {
        let id = try await stage.push(token)
        while let frame = try await events.next() {
            if frame.data?["id"]?.string == id { return true }
        }
        return false
    }

    /// Waits until a stream has ended, ignoring its last events.
    private static func ends(_ events: EventListener) async throws {
        while try await events.next() != nil {}
    }

    /// Waits until the gateway has a waiting request.
    private static func waits(_ stage: TwoProviders) async throws {
        try await waitUntil("a request waits") {
            try await send(.GET, stage.gateway.operations + "/metrics").text.contains("sluice_http_waits 1\n")
        }
    }

    @Test(arguments: [false, true]) func `a stream ends once its organization loses the external id of its token`(
        isElsewhere: Bool
    ) async throws {
        let stage = try await Self.stage()
        let tenant = stage.tenants.north
        for name in ["acme", "fjord"] { try await stage.name(name, Self.north, tenant) }
        let (acme, fjord) = (
            try stage.token(Self.north, #""sub":"ada","org":"acme""#),
            try stage.token(Self.north, #""sub":"bob","org":"fjord""#)
        )
        let plain = try stage.token(Self.north, "eve", tenant)
        let (lost, kept, own) = (
            try await Self.listen(stage, acme), try await Self.listen(stage, fjord), try await Self.listen(stage, plain)
        )
        if isElsewhere {
            try await stage.execute("DELETE FROM external_ids WHERE external_id = 'acme'")
        } else {
            let names = #"{"external_ids":[{"issuer":"\#(Self.north)","external_id":"fjord"}]}"#
            let path = "/admin/organizations/\(tenant.lowercased)"
            #expect(try await stage.operate(.PUT, path, names).status == 200)
        }
        try await Self.ends(lost)
        #expect(try await Self.hears(kept, stage, fjord))
        #expect(try await Self.hears(own, stage, plain))
        let ends = try await send(.GET, stage.gateway.operations + "/metrics").text
        #expect(ends.contains(#"sluice_event_streams_ended_total{reason="refused"} 1"#))
        // access is also lost if the external id moves to another organization
        try await stage.execute("UPDATE external_ids SET organization_id = '\(stage.tenants.shared)'")
        try await Self.ends(kept)
    }

    @Test func `streams and waits end once the organization's issuer is not trusted any more`() async throws {
        let stage = try await Self.stage()
        let (north, shared) = (stage.tenants.north, stage.tenants.shared)
        let (ada, bob, eve) = (
            try stage.token(Self.north, "ada", north), try stage.token(Self.north, "bob", shared),
            try stage.token(Self.south, "eve", shared)
        )
        let (lost, kept, others) = (
            try await Self.listen(stage, ada), try await Self.listen(stage, bob), try await Self.listen(stage, eve)
        )
        let next = try #require(try await stage.get("/v1/changes", ada).json?["next"]?.string)
        async let waiting = stage.get("/v1/changes?wait=50&since=\(next)", ada)
        try await Self.waits(stage)
        var tokens = stage.tokens
        tokens.otherIssuers[0].organizations = .only([shared])
        try await stage.gateway.verifier.replace(tokens)
        try await Self.ends(lost)
        expectProblem(try await waiting, .organizationUnknown, errors: [])
        #expect(try await Self.hears(kept, stage, bob))
        // with another namespace, Bob is another user
        tokens.otherIssuers[0].namespace = "n"
        try await stage.gateway.verifier.replace(tokens)
        try await Self.ends(kept)
        #expect(try await Self.hears(others, stage, eve))
        // the streams of a removed issuer end, too
        tokens.otherIssuers.removeLast()
        try await stage.gateway.verifier.replace(tokens)
        try await Self.ends(others)
    }

    @Test func `a wait ends once its organization loses the external id of its token`() async throws {
        let stage = try await Self.stage()
        try await stage.name("acme", Self.north, stage.tenants.north)
        let ada = try stage.token(Self.north, #""sub":"ada","org":"acme""#)
        let next = try #require(try await stage.get("/v1/changes", ada).json?["next"]?.string)
        async let waiting = stage.get("/v1/changes?wait=50&since=\(next)", ada)
        try await Self.waits(stage)
        try await stage.execute("DELETE FROM external_ids")
        // after this time, every gateway has loaded the change
        stage.gateway.clock.advance(seconds: 6)
        expectProblem(try await waiting, .organizationUnknown, errors: [])
    }

    @Test func `streams and waits end for deprovisioned users and with explicit provisioning`()
        async throws
    {
        let stage = try await Self.stage()
        let (tenant, other) = (stage.tenants.north, stage.tenants.shared)
        let (ada, bob) = (try stage.token(Self.north, "ada", tenant), try stage.token(Self.north, "bob", tenant))
        let elsewhere = try stage.token(Self.north, "ada", other)
        for token in [ada, elsewhere] { try await stage.push(token) }
        let (in1, out, there) = (
            try await Self.listen(stage, ada), try await Self.listen(stage, bob),
            try await Self.listen(stage, elsewhere)
        )
        let next = try #require(try await stage.get("/v1/changes", bob).json?["next"]?.string)
        async let waiting = stage.get("/v1/changes?wait=50&since=\(next)", bob)
        try await Self.waits(stage)
        // an operator at another gateway changes the setting: users who have pushed keep access, and users who have
        // only read lose it
        try await stage.execute(#"UPDATE organizations SET settings = '{"provisioning":"explicit"}'"#)
        stage.gateway.clock.advance(seconds: 6)
        try await Self.ends(out)
        expectProblem(try await waiting, .userUnknown, errors: [])
        #expect(try await Self.hears(in1, stage, ada))
        try await stage.execute("DELETE FROM users WHERE organization_id = '\(tenant)'")
        try await Self.ends(in1)
        #expect(try await Self.hears(there, stage, elsewhere))
    }

    @Test func `a merged user's stream ends, and the target user's stream continues`() async throws {
        let stage = try await Self.stage()
        let tenant = stage.tenants.north
        let (one, other) = (UUID(), UUID())
        let (ada, bob) = (
            try stage.token(Self.north, one.lowercased, tenant), try stage.token(Self.north, other.lowercased, tenant)
        )
        for token in [ada, bob] { try await stage.push(token) }
        let (lost, kept) = (try await Self.listen(stage, ada), try await Self.listen(stage, bob))
        // simulates a merge at another gateway
        try await stage.execute(
            """
            INSERT INTO user_joins (organization_id, user_id, into_id, started_at, feed_end, finished_at)
            VALUES ('\(tenant)', '\(one)', '\(other)', now(), 1, now())
            """
        )
        try await Self.ends(lost)
        #expect(try await Self.hears(kept, stage, bob))
    }
}
