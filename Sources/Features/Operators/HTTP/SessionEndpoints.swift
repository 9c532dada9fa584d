import HTTPTypes
import JSONText
import Logging
import NIOCore
import SyncHTTP
package import SyncModel
import SyncStore
import Synchronization

/// `/console/session`: an operator signs in with a token, and signs out.
struct SessionEndpoints: Sendable {
    let authenticator: OperatorAuthenticator
    let bodies: BodyReader
    let logger: Logger
    private let limit = SignInLimit()

    init(authenticator: OperatorAuthenticator, bodies: BodyReader, logger: Logger) {
        self.authenticator = authenticator
        self.bodies = bodies
        self.logger = logger
    }

    func signIn(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard RequestOrigin(exchange.head).maySignIn else {
            let reason = "Neither Sec-Fetch-Site nor Origin shows that the console sent the request."
            throw Problem(.forbidden, "Only the console itself can sign in. \(reason)")
        }
        let text = try await bodies.withUnverifiedBody(of: exchange, addressedTo: LaneKey.unknown.user) { body, _ in
            try Self.table.read(body, into: "")
        }
        // the attempt is counted after the body was read, so that a client with many waiting bodies gets no additional
        // attempts
        let (address, now) = (exchange.channel.remoteAddress?.ipAddress ?? "", authenticator.now())
        switch limit.attempt(address, at: now, { authenticator.tokens.token(text) }) {
        case .right(let token):
            let session = OperatorSession.text(for: token, until: now.seconds + OperatorSession.seconds)
            return Self.answer(session, seconds: OperatorSession.seconds, to: exchange)
        case .wrong:
            logger.notice("Sign-in to the console with a wrong token")
            throw BearerToken.refusal("invalid_token", "The token is not an operator's token.")
        case .tooMany(let seconds):
            var problem = Problem(.rateLimited, "Too many sign-ins with wrong tokens from your address.")
            problem.retryAfter = Int(seconds)
            throw problem
        }
    }

    /// Ends the session for all gateways and removes the cookie.
    ///
    /// If the end cannot be stored, the response still removes the cookie. Its error status shows that a copy of the
    /// cookie may still be valid.
    func signOut(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard RequestOrigin(exchange.head).maySignIn else {
            let reason = "Neither Sec-Fetch-Site nor Origin shows that the console sent the request."
            throw Problem(.forbidden, "Only the console itself can sign out. \(reason)")
        }
        let answer = Self.answer("", seconds: 0, to: exchange)
        guard let cookie = SessionCookie.value(exchange.headers),
            let session = OperatorSession.token(of: cookie, among: authenticator.tokens, at: authenticator.now())
        else { return answer }
        do throws(Problem) {
            try await authenticator.ended.end(
                OperatorSession.digest(of: cookie),
                until: Timestamp(microseconds: session.end * 1_000_000)
            )
        } catch {
            throw Refusal(error, headers: answer.headers)
        }
        return answer
    }

    private static func answer(_ session: String, seconds: Int64, to exchange: Exchange) -> Answer {
        var answer = Answer(.noContent)
        answer.headers[.setCookie] = SessionCookie.field(session, seconds: seconds, over: exchange.headers)
        answer.headers[.cacheControl] = "no-store"
        return answer
    }

    /// The definition of the body, which contains the token.
    private static let table = MemberTable<String, Never>("a sign-in", missing: .alone) {
        BodyMember("token", .text("must be a text", rule: Rule.memberType) { _ in true }, into: \.self)
            .required("token must be an operator's token")
    }
}

/// Counts wrong tokens at the sign-in for each address. Too many wrong tokens delay only the address that sent them.
package final class SignInLimit: Sendable {
    /// The maximum number of wrong tokens of an address within a window.
    package static let tries = 10
    /// The duration of a window, in seconds.
    package static let seconds: Int64 = 60
    /// The maximum number of stored addresses. If there are more, the oldest are removed.
    package static let addresses = 1_024

    private struct Window {
        package var began: Int64
        package var wrong: Int
    }

    private let windows = Mutex([ByteExactString: Window]())

    /// The result of an attempt.
    package enum Attempt<Found: Sendable>: Sendable {
        case right(Found)
        case wrong
        /// There were too many earlier attempts, so the token was not checked. The address can try again after
        /// `seconds`.
        case tooMany(seconds: Int64)
    }

    /// Makes an attempt and counts it in one step, so that concurrent attempts are counted like sequential attempts.
    ///
    /// - Parameter find: returns the operator whom the token authenticates; nil for a wrong token. It must be quick,
    ///   because other attempts wait for it.
    package func attempt<Found: Sendable>(_ address: String, at now: Timestamp, _ find: () -> Found?) -> Attempt<Found>
    {
        windows.withLock { windows -> Attempt<Found> in
            var window = windows[address] ?? Window(began: now.seconds, wrong: 0)
            if now.seconds >= window.began + Self.seconds { window = Window(began: now.seconds, wrong: 0) }
            guard window.wrong < Self.tries else {
                return .tooMany(seconds: window.began + Self.seconds - now.seconds)
            }
            if let found = find() { return .right(found) }
            window.wrong += 1
            if windows[address] == nil { Self.makeRoom(in: &windows, at: now) }
            windows[address] = window
            return .wrong
        }
    }

    private static func makeRoom(in windows: inout [ByteExactString: Window], at now: Timestamp) {
        if windows.count >= addresses { windows = windows.filter { now.seconds < $0.value.began + seconds } }
        if windows.count >= addresses, let oldest = windows.min(by: { $0.value.began < $1.value.began }) {
            windows[oldest.key] = nil
        }
    }
}

/// `GET /admin/me`: the identity and scope of the caller, and information about the gateway.
struct MeEndpoint: Sendable {
    let store: Store
    let configuration: HTTPConfiguration

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return Answer(.ok) { writer in
            writer.member("name", exchange.operatorToken?.name)
            writer.member("scope", exchange.operatorToken?.scope.rawValue)
            writer.member("version", configuration.version)
            writer.member("commit", configuration.commit)
            writer.member("gateway_id", store.notifier.gatewayID)
            writer.member("sealed", store.masterKeys != nil)
            writer.name("demo")
            guard let demo = configuration.demo else { return writer.null() }
            let address = configuration.publicAddress
            writer.object { writer in
                writer.member("organization_id", demo.organization)
                writer.member("user_id", demo.user)
                // if the system chooses the port, the port is unknown here
                writer.member("api", address.port == 0 ? nil : "http://\(address)/v1")
            }
        }
    }
}
