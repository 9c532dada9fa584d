import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import Testing

/// Three operators with their own tokens, in addition to the tests' default operator, who is an admin.
enum Operators {
    static let reader = "token-of-a-reader-0123"
    static let settler = "token-of-a-settler-0123"
    static let admin = "token-of-an-admin-0123"

    static func configure(_ configuration: inout HTTPConfiguration) {
        let hash = OperatorTokens.hash(of: settler)
        configuration.operatorTokens = OperatorTokens(
            parsing: "\(LiveGateway.operatorToken) rita@read:\(reader) sam@settle:\(hash) anna@\(admin)"
        )
    }
}

extension TwoTenantFixture {
    /// A scene with three more operators.
    static func withOperators(
        forwards: Bool = false,
        _ configure: (inout HTTPConfiguration) -> Void = { _ in }
    ) async throws -> TwoTenantFixture {
        try await TwoTenantFixture(forwards: forwards) {
            Operators.configure(&$0)
            configure(&$0)
        }
    }

    /// Makes a call with an operator's token, or without a token. Each call is a millisecond later than the previous
    /// call, as in production.
    func call(
        _ method: HTTPMethod,
        _ path: String,
        as token: String? = nil,
        _ body: String? = nil,
        _ headers: [(String, String)] = []
    ) async throws -> Reply {
        gateway.clock.advance(seconds: 0.001)
        return try await send(
            method,
            gateway.operations + path,
            token: token,
            headers: headers,
            body: body.map { Array($0.utf8) }
        )
    }

    /// Makes a call as the default operator, an admin, a millisecond later than the previous call.
    func act(
        _ method: HTTPMethod,
        _ path: String,
        _ body: String? = nil,
        headers: [(String, String)] = []
    ) async throws -> Reply {
        try await call(method, path, as: LiveGateway.operatorToken, body, headers)
    }

    /// The session cookie for a token, as a browser sends it.
    func signIn(_ token: String, _ headers: [(String, String)] = []) async throws -> String {
        let body = #"{"token":"\#(token)"}"#
        let reply = try await call(
            .POST,
            "/console/session",
            as: nil,
            body,
            [("Sec-Fetch-Site", "same-origin")] + headers
        )
        #expect(reply.status == 204, "\(reply.text)")
        let field = try #require(reply.header("set-cookie").first)
        return String(field.prefix { $0 != ";" })
    }

    /// The entries of the audit log, the newest first.
    func audit(_ query: String = "") async throws -> [JSONValue] {
        let reply = try await operate(.GET, "/admin/audit" + query)
        #expect(reply.status == 200, "\(reply.text)")
        return reply.json?["audit"]?.elements.map(Array.init) ?? []
    }
}
