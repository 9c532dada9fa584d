import HTTPTypes
import SyncModel
import Testing

@testable import OperatorsFeature
@testable import SyncHTTP

@Suite struct OperatorSessionTests {
    private static let now = Timestamp(microseconds: 1_795_000_000_000_000)

    @Test func `tokens have names and scopes`() throws {
        let secret = "a-secret-of-sixteen"
        for (word, name, scope) in [
            (secret, "operator", OperatorScope.admin), ("read:\(secret)", "operator", .read),
            ("anna@\(secret)", "anna", .admin), ("anna-2@settle:\(OperatorTokens.hash(of: secret))", "anna-2", .settle),
            ("admin:\(OperatorTokens.hash(of: secret))", "operator", .admin),
        ] {
            let token = try #require(OperatorTokens(parsing: word)?.token(secret), "\(word)")
            #expect(token.name == name && token.scope == scope)
        }
        for word in [
            "@\(secret)", "Anna@\(secret)", "a b@\(secret)", "\(String(repeating: "a", count: 33))@\(secret)",
            "write:\(secret)", "read:short", "read:read:\(secret)", "anna@otto@\(secret)", "anna@", "read:",
            "settle:anna@\(secret)", "sha512:\(secret)",
        ] {
            #expect(OperatorTokens(parsing: word) == nil, "\(word)")
        }
    }

    @Test func `uses the first of two entries for the same token`() throws {
        let tokens = try #require(OperatorTokens(parsing: "rita@read:a-secret-of-sixteen anna@a-secret-of-sixteen"))
        #expect(tokens.token("a-secret-of-sixteen")?.name == "rita")
    }

    @Test func `rejects a session whose expiry exceeds twelve hours`() throws {
        let tokens = try #require(OperatorTokens(parsing: "a-secret-of-sixteen"))
        let token = tokens.all[0]
        for (seconds, isGood) in [(43_200, true), (1, true), (0, false), (-1, false), (43_201, false)]
            as [(Int64, Bool)]
        {
            let text = OperatorSession.text(for: token, until: Self.now.seconds + seconds)
            #expect((OperatorSession.token(of: text, among: tokens, at: Self.now) != nil) == isGood, "\(seconds)")
            #expect(!text.contains(OperatorToken.hexadecimal(token.digest)))
        }
    }

    @Test func `finds the session cookie among other cookies`() {
        func value(_ fields: String...) -> Substring? {
            var headers = HTTPFields()
            for field in fields { headers.append(HTTPField(name: .cookie, value: field)) }
            return SessionCookie.value(headers)
        }
        #expect(value("sluice_session=a") == "a")
        #expect(value("x=1; sluice_session=a=b; y=2") == "a=b")
        #expect(value("x=1", "y=2;sluice_session=a") == "a")
        #expect(value("sluice_session=a; __Host-sluice_session=b") == "b")
        #expect(value("sluice_sessions=a", "sluice_session", "") == nil)
    }

    @Test func `limits the number of remembered addresses`() {
        let limit = SignInLimit()
        for number in 0..<(SignInLimit.addresses + 100) {
            for _ in 0..<SignInLimit.tries { _ = limit.attempt("\(number)", at: Self.now) { nil as Int? } }
        }
        // successful sign-ins leave no trace
        let held = (0..<(SignInLimit.addresses + 100)).count { number in
            if case .tooMany(seconds: SignInLimit.seconds) = limit.attempt("\(number)", at: Self.now, { 1 }) {
                true
            } else {
                false
            }
        }
        #expect(held == SignInLimit.addresses)
        let later = limit.attempt("0", at: Self.now.adding(seconds: 60)) { 1 }
        if case .right = later { return }
        Issue.record("a minute later: \(later)")
    }

    @Test func `pages have the lowest precedence of all routes`() {
        var table = RouteTable()
        table.addPages(at: "/console") { _ in Answer(.ok) }
        table.add(.post, "/console/session") { _ in Answer(.ok) }
        func parameters(_ method: HTTPRequest.Method, _ path: String) -> [Substring]? {
            guard case .route(_, let parameters) = table.match(method, path) else { return nil }
            return parameters
        }
        #expect(parameters(.get, "/console") == [""] && parameters(.head, "/console/") == [""])
        #expect(parameters(.get, "/console/a/b.js") == ["a/b.js"])
        #expect(parameters(.get, "/consoles") == nil && parameters(.post, "/console/a") == nil)
        #expect(parameters(.get, "/console/session") == nil && parameters(.post, "/console/session") == [])
        #expect(table.names == ["POST /console/session"])
    }
}
