import Testing

@testable import SyncHTTP

@Suite struct OperatorTokensTests {
    private let old = "the-token-of-last-year"
    private let new = "the.token_of~this+year/="

    @Test func `accepts exactly the configured token`() throws {
        let tokens = try #require(OperatorTokens(parsing: old))
        #expect(tokens.token(old) != nil)
        for text in ["", String(old.dropLast()), old + "x", old.uppercased(), new] {
            #expect(tokens.token(text) == nil)
        }
    }

    @Test func `accepts several tokens in every notation`() throws {
        for separator in [" ", "\n", "\r\n", " \t\n\n"] {
            for texts in [[old, new], [OperatorTokens.hash(of: old), new], [old, OperatorTokens.hash(of: new)]] {
                let tokens = try #require(OperatorTokens(parsing: texts.joined(separator: separator) + separator))
                #expect(tokens.token(old) != nil && tokens.token(new) != nil)
                #expect(tokens.token("another-token-entirely") == nil)
            }
        }
    }

    @Test func `a hash is not a token`() throws {
        let hash = OperatorTokens.hash(of: old)
        let tokens = try #require(OperatorTokens(parsing: hash))
        #expect(tokens.token(old) != nil)
        #expect(tokens.token(hash) == nil)
        #expect(tokens.token(hash.dropFirst("sha256:".count)) == nil)
        #expect(OperatorTokens(parsing: hash.uppercased().replacing("SHA256", with: "sha256")) == tokens)
        // printf the-token-of-last-year | sha256sum
        #expect(hash == "sha256:4f816d1e5367646bde57660d82bb5ee35451ebd168b9b2bfb6e5206bb4315cd6")
    }

    @Test func `rejects invalid tokens and too many of them`() {
        let hash = OperatorTokens.hash(of: old)
        for text in [
            "", " ", "short", "fifteen-letters", "with,comma-and-more", "\"quoted-token-here\"", "ünïcode-token-here",
            String(hash.dropLast()), hash + "0", "sha256:" + String(repeating: "g", count: 64),
            "sha512:" + hash.dropFirst(7),
            old + " short", hash + " x",
        ] {
            #expect(OperatorTokens(parsing: text) == nil, "\(text)")
        }
        let many = (0..<16).map { "token-number-000\($0)" }
        #expect(OperatorTokens(parsing: many.joined(separator: " ")) != nil)
        #expect(OperatorTokens(parsing: (many + [old]).joined(separator: " ")) == nil)
    }

    @Test func `a token's text is not kept`() throws {
        let tokens = try #require(OperatorTokens(parsing: old))
        #expect(!String(reflecting: tokens).contains(old))
        var text = ""
        dump(tokens, to: &text)
        #expect(!text.contains(old))
    }
}
