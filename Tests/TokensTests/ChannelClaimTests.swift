import Foundation
import SyncModel
import Testing

@testable import Tokens

@Suite("Channels of tokens")
struct ChannelClaimTests {
    private let key = TestKey.hs256(Keys.secret)

    private func verifier(_ claim: ChannelClaim?) async throws -> TokenVerifier {
        var configuration = TokenConfiguration(secret: Keys.secret)
        configuration.own.channels = claim
        return try await TokenVerifier(configuration: configuration)
    }

    @Test
    func `A text or a list gives channels with the prefix`() async throws {
        let verifier = try await verifier(ChannelClaim(try ClaimPlace(parsing: "$.x.groups"), prefix: "team/"))
        let long = String(repeating: "x", count: 200)
        for (groups, names) in [
            ("a", ["team/a"]), (["b", "a", "b"], ["team/a", "team/b"]), ([7, "a\nb", long, ""], ["team/7"]),
            ([String](), []), (NSNull(), []),
        ] as [(Any, [String])] {
            let token = try key.token(claims(["x": ["groups": groups], "iat": now - 5]))
            let channels = try verifier.verify(token, now: now).channels
            #expect(channels?.names.map(\.string) == names, "\(groups)")
            #expect(channels?.role == .read && channels?.issuedAt == now - 5)
        }
        let missing = try verifier.verify(key.token(claims()), now: now).channels
        #expect(missing?.names == [] && missing?.issuedAt == now + 60, "without iat, exp counts as the time of issue")
        for groups in [["a": 1], [["a"]], [true]] as [Any] {
            let token = try key.token(claims(["x": ["groups": groups]]))
            let problem = TokenError.malformedClaim("$.x.groups", mustBe: "a text, or a list of texts")
            #expect(verifier.refusal(token) == problem)
        }
    }

    @Test
    func `Without the setting, a token does not change channels`() async throws {
        let token = try key.token(claims(["groups": ["a"]]))
        #expect(try await verifier(nil).verify(token, now: now).channels == nil)
    }

    @Test
    func `A token of channels from the future is refused`() async throws {
        let token = try key.token(claims(["groups": ["a"], "iat": now + 61, "exp": now + 600]))
        let early = try await verifier(ChannelClaim(ClaimPlace(named: "groups")))
        #expect(early.refusal(token) == .notYetValid(claim: "iat"))
        #expect(early.refusal(token, now: now + 1) == nil)
        #expect(try await verifier(nil).refusal(token) == nil, "its time decides about nothing")
        var configuration = TokenConfiguration(secret: Keys.secret)
        (configuration.own.channels, configuration.leewaySeconds) = (ChannelClaim(ClaimPlace(named: "groups")), 100)
        #expect(try await TokenVerifier(configuration: configuration).refusal(token) == nil)
    }

    @Test
    func `Only the newest token changes channels`() {
        let old = TokenChannels(["a"], .read, issuedAt: 7)
        #expect(old.order(after: 7, old.digest) == .applied)
        #expect(old.order(after: 8, old.digest) == .outdated)
        #expect(old.order(after: 6, old.digest) == .renewed)
        for other in [TokenChannels(["b"], .read, issuedAt: 7), TokenChannels(["a"], .write, issuedAt: 7)] {
            #expect(other.order(after: 6, old.digest) == .changed)
            let (first, second) = (other.order(after: 7, old.digest), old.order(after: 7, other.digest))
            #expect([first, second].contains(.changed) && [first, second].contains(.outdated), "one wins a tie")
        }
        #expect(
            TokenChannels(["b", "a"], .read, issuedAt: 1).digest
                == TokenChannels(["a", "b"], .read, issuedAt: 2).digest
        )
    }
}
