import SyncModel
import Testing

@Suite struct UpstreamSettingsTests {
    @Test(arguments: [
        "http://a", "https://api.example.com", "HTTPS://API.Example.com/v1/", "http://127.0.0.1:8080/x/y",
        "http://[::1]:8080", "http://[2001:db8::1]/api", "http://[::ffff:192.0.2.1]/", "http://localhost:1",
        "http://localhost:65535///", "http://my_service.internal./a%20b/c;d=1", "http://[1:2:3:4:5:6:7:8]",
        "http://a/api/group%2Fproject",
    ])
    func `accepts base URLs`(_ text: String) {
        #expect(problem(text) == nil)
    }

    @Test(arguments: [
        ("", "start with http"), ("example.com", "start with http"), ("//example.com", "start with http"),
        ("ftp://example.com", "start with http"), ("http:/example.com", "start with http"),
        ("http:example.com", "start with http"), ("http+unix://x/", "start with http"),
        ("http://", "host"), ("http:///x", "host"), ("http://:80", "host"), ("http://-a.b", "host"),
        ("http://a..b", "host"), ("http://a%41", "host"), ("http://ex\u{e4}mple.com", "ASCII"),
        ("http://a:0", "port"), ("http://a:65536", "port"), ("http://a:", "port"), ("http://a:+80", "port"),
        ("http://a:8x", "port"), ("http://[::1]80", "port"), ("http://a:99999999999999999999", "port"),
        ("http://[::1", "without its"), ("http://[]", "IPv6"), ("http://[1:2:3]", "IPv6"),
        ("http://[1::2::3]", "IPv6"), ("http://[::1.2.3]", "IPv6"), ("http://[1.2.3.4::]", "IPv6"),
        ("http://[fe80::1%25eth0]", "IPv6"), ("http://[1:2:3:4:5:6:7:8::]", "IPv6"), ("http://[:::]", "IPv6"),
        ("http://[::-0]", "IPv6"), ("http://[::010.0.0.1]", "IPv6"), ("http://[127.0.0.1]", "IPv6"),
        ("http://user@a", "user"), ("http://user:secret@a/", "user"), ("http://a@b/c", "user"),
        ("http://a/?x=1", "query"), ("http://a?x", "query"), ("http://a/#x", "fragment"), ("http://a#x", "fragment"),
        ("http://a/b c", "ASCII"), (" http://a", "ASCII"), ("http://a\n", "ASCII"), ("http://a/\u{7f}", "ASCII"),
        ("http://a\u{0}b", "ASCII"), ("http://a/b\\c", "percent-encoded"), ("http://a/{x}", "percent-encoded"),
        ("http://a/../b", "segment"), ("http://a/%2e%2e/b", "segment"), ("http://a/x/.", "segment"),
        ("http://a/%zz", "hex"), ("http://a//b", "path"), ("http://a/..;/b", "segment"), ("http://a/%c3%28", "UTF-8"),
        ("http://a\\b/", "host"),
    ])
    func `refuses other base URLs`(_ text: String, _ reason: String) {
        #expect(problem(text)?.contains(reason) == true)
    }

    private func problem(_ text: String) -> String? {
        do throws(BaseURL.Malformed) {
            _ = try BaseURL(text)
            return nil
        } catch {
            return error.reason
        }
    }

    @Test func `a base URL has a maximum length`() {
        let longest = "http://a/" + String(repeating: "b", count: 1_991)
        #expect(problem(longest) == nil)
        #expect(problem(longest + "b") != nil)
    }

    @Test(arguments: [
        ("http://a/", "http://a"), ("http://a", "http://a"),
        ("HTTPS://API.Example.com/V1//", "https://api.example.com/V1"),
        ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]:80"),
    ])
    func `base URLs have one form`(_ text: String, _ normalized: String) throws {
        #expect(try BaseURL(text).text == normalized)
        #expect(try BaseURL(normalized).text == normalized)
    }

    @Test(arguments: [
        ("X-Api-Key", "abc", true), ("Authorization", "Basic YTpi", true), ("cookie", "a=b", true),
        ("accept-language", "nb", false), ("x-empty", "", false), ("x-tab", "a\tb", false), ("x-utf8", "\u{e4}", false),
    ])
    func `accepts headers`(_ name: String, _ value: String, _ isCredential: Bool) {
        #expect(UpstreamSettings.headerProblem(name: name, value: value, isCredential: isCredential) == nil)
    }

    @Test(arguments: [
        ("", "x", false), ("a b", "x", false), ("a:", "x", false), ("\u{e4}", "x", false), ("a\r\nb", "x", false),
        ("Host", "x", false), ("Content-Length", "1", false), ("Transfer-Encoding", "chunked", true),
        ("Connection", "close", true), ("TE", "trailers", false), ("Upgrade", "h2c", false),
        ("Idempotency-Key", "x", true), ("X-Sluice-User", "x", false), ("x-sluice-anything", "x", true),
        ("traceparent", "x", false), ("Authorization", "x", false), ("Cookie", "a=b", false),
        ("x", "a\r\nb", false), ("x", "a\u{0}", true), ("x", "\u{7f}", false), ("x-api-key", "", true),
        ("x", String(repeating: "x", count: 4_097), false),
    ])
    func `refuses other headers`(_ name: String, _ value: String, _ isCredential: Bool) {
        #expect(UpstreamSettings.headerProblem(name: name, value: value, isCredential: isCredential) != nil)
    }
}
