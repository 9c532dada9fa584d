import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Tokens of one user that requests use at the same time.
@Suite struct TokenGrantsTests {
    private let gateway: Gateway
    private let user: LaneKey
    private var source: GrantSource { .issuer("https://id.example", of: user.user) }

    init() async throws {
        gateway = try await Gateway()
        user = LaneKey(organization: try await gateway.organization().id, user: UUID())
    }

    private func apply(_ names: [String], at issuedAt: Int64, by other: Gateway? = nil) async throws {
        let channels = TokenChannels(names, .write, issuedAt: issuedAt)
        try await (other ?? gateway).store.tokenGrants.apply(channels, to: user, from: source)
    }

    /// The names of the channels that the user holds, and when the newest token was issued.
    private func held(in user: LaneKey? = nil) async throws -> (names: [String], issuedAt: Int64?) {
        let user = user ?? self.user
        let parameters = Parameters(of: user)
        let grants = try await gateway.read(
            """
            SELECT name FROM channel_grants
            WHERE organization_id = $1 AND user_id = $2 AND until IS NULL ORDER BY name
            """,
            parameters
        )
        let newest = try await gateway.read(
            "SELECT issued_at FROM token_channels WHERE organization_id = $1 AND user_id = $2",
            parameters
        )
        return (
            try grants.read { try $0.read("name", as: String.self) },
            try newest.read { try $0.read("issued_at", as: Int64.self) }.first
        )
    }

    /// The newest token has the same channels as an old token. While the request with the newest token runs, another
    /// request records a token that was issued between the two.
    @Test(.onOneServer("locks of one server"))
    func `a renewed token replaces the channels of a token that was recorded in the meantime`() async throws {
        try await apply(["own"], at: 10)
        let between = TokenChannels(["own", "secret"], .write, issuedAt: 20)
        let other = try await gateway.database.connect()
        defer { other.close() }
        let key = "organization_id = '\(user.organization.lowercased)' AND user_id = '\(user.user.lowercased)'"
        try await other.execute(
            script: """
                BEGIN;
                UPDATE feeds SET last_position = last_position + 1
                WHERE organization_id = '\(user.organization.lowercased)';
                UPDATE token_channels SET issued_at = 20, digest = '\(between.digest.lowercased)' WHERE \(key);
                INSERT INTO channel_grants (organization_id, user_id, channel, source, since, name, role, changed_at)
                SELECT g.organization_id, g.user_id, '\(ChannelID(named: "secret").uuid.lowercased)', g.source,
                    f.last_position, 'secret', 'write', f.last_position
                FROM channel_grants g JOIN feeds f USING (organization_id) WHERE \(key);
                """
        )
        async let newest: Void = apply(["own"], at: 30)
        // the request has read the token of second 10, and waits for the row
        try await gateway.waitForLocks(1)
        try await other.execute(script: "COMMIT")
        try await newest
        #expect(try await held() == (["own"], 30))
        try await apply(["own", "secret"], at: 20)
        #expect(try await held() == (["own"], 30))
    }

    /// While the request with an older token runs, another request renews the newest token.
    @Test(.onOneServer("locks of one server"))
    func `an older token does not replace the channels of a token that was renewed in the meantime`() async throws {
        try await apply(["own"], at: 10)
        let replica = try await Gateway(replicaOf: gateway)
        let other = try await gateway.database.connect()
        defer { other.close() }
        try await other.execute(
            script: """
                BEGIN;
                UPDATE token_channels SET issued_at = 30
                WHERE organization_id = '\(user.organization.lowercased)' AND user_id = '\(user.user.lowercased)';
                """
        )
        async let older: Void = apply(["secret"], at: 20, by: replica)
        // the request has read the token of second 10, and waits for the row
        try await gateway.waitForLocks(1)
        try await other.execute(script: "COMMIT")
        try await older
        #expect(try await held() == (["own"], 30))
    }

    @Test func `of two tokens from the same second, all gateways select the same token, in any order`() async throws {
        let replica = try await Gateway(replicaOf: gateway)
        let tokens = [["a"], ["b", "c"]]
        let digests = tokens.map { TokenChannels($0, .write, issuedAt: 10).digest }
        let winner = digests[0] < digests[1] ? tokens[1] : tokens[0]
        for order in [[0, 1, 0], [1, 0, 1, 1, 0]] {
            for (turn, place) in order.enumerated() {
                try await apply(tokens[place], at: 10, by: turn % 2 == 0 ? gateway : replica)
            }
            #expect(try await held() == (winner.sorted(), 10))
        }
        try await apply(["d"], at: 11)
        for place in [0, 1] { try await apply(tokens[place], at: 10, by: replica) }
        #expect(try await held() == (["d"], 11))
    }

    @Test func `concurrent tokens end with the newest one, and other tenants' users keep theirs`() async throws {
        let replica = try await Gateway(replicaOf: gateway)
        let stranger = LaneKey(organization: try await gateway.organization().id, user: user.user)
        try await gateway.store.tokenGrants.apply(
            TokenChannels(["theirs"], .read, issuedAt: 5),
            to: stranger,
            from: source
        )
        try await apply(["n0"], at: 0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for second in (1...12).shuffled() {
                let target = second % 2 == 0 ? gateway : replica
                group.addTask { try await apply(["n\(second % 3)"], at: Int64(second), by: target) }
            }
            try await group.waitForAll()
        }
        try await apply(["n0"], at: 12)
        #expect(try await held() == (["n0"], 12))
        #expect(try await held(in: stranger) == (["theirs"], 5))
    }
}
