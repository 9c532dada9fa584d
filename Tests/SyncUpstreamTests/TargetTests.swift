import Foundation
import SyncModel
import TestSupport
import Testing

@testable import SyncUpstream

/// No path leads out of a base URL.
@Suite struct TargetTests {
    @Test(arguments: [
        ("http://a", "/x", "http://a/x", "a"), ("http://A:80/", "/x", "http://a:80/x", "a"),
        ("https://a:443/b/", "/x?y", "https://a:443/b/x?y", "a"), ("https://a:80", "/", "https://a:80/", "a:80"),
        ("http://[::1]:8080/v1", "/x", "http://[::1]:8080/v1/x", "[::1]:8080"),
        ("http://a", "/.a/..b/c..", "http://a/.a/..b/c..", "a"),
        ("http://a", "/a?b=/../c", "http://a/a?b=/../c", "a"), ("http://a", "/a?%c3%28", "http://a/a?%c3%28", "a"),
        ("http://a", "/a%20b%2Fc", "http://a/a%20b%2Fc", "a"),
    ])
    func `paths are appended`(_ base: String, _ path: String, _ url: String, _ host: String) throws {
        let target = try RequestTarget(UpstreamSettings(baseURL: base), path: path)
        #expect(target.url == url)
        #expect(target.base.host == host)
    }

    @Test(arguments: [
        "", "x", "//x", "/\\x", "/a/..", "/../a", "/a/../b", "/./a", "/a/.", "/%2e", "/%2E%2e/a", "/.%2e/a",
        "/a%2f..%2fb", "/a%2F%2e%2e", "/..%5ca", "/%252e%252e/a", "/%25252e%25252e/a", "/..;x=1/a", "/..%3bx/a",
        "/..%00/a", "/a#b", "/a b", "/a\tb", "/a\r\nb", "/a\u{0}", "/a\u{7f}", "http://evil.example/",
        "@evil.example/", ":80/", ".evil.example/", "?x", "#x", "%2f", "/..?x", "/%2fevil.example", "/%c3%28", "/a%",
        "/..%3fx",
    ])
    func `refuses other paths`(_ path: String) {
        let upstream = UpstreamSettings(baseURL: "http://a/b")
        #expect(throws: RequestTarget.Unsendable.self) { try RequestTarget(upstream, path: path) }
    }

    @Test(arguments: ["", "a", "ftp://a", "http://u@a", "http://a?x", "http://a/../b"])
    func `refuses other base URLs`(_ base: String) {
        let upstream = UpstreamSettings(baseURL: base)
        #expect(throws: RequestTarget.Unsendable.self) { try RequestTarget(upstream, path: "/x") }
    }

    @Test func `no random path leaves the base URL`() throws {
        let seed = UInt64.random(in: 0 ... .max)
        print("seed \(seed)")
        var random = SeededRandom(seed)
        let pieces = [
            "/", "/", "/", ".", "..", "a", "b", "%2e", "%2E", "%2f", "%5c", "%25", "%00", "%", "\\", ";", "?", "#", "@",
            ":",
            "evil.example", "http:", "//", " ", "\t", "\r\n", "\u{0}", "\u{e9}", "\u{ff0f}", "\u{2024}", "[", "]", "{",
            "&", "=", "|", "\u{202e}",
        ]
        let upstream = UpstreamSettings(baseURL: "http://host.example:8080/base/v1")
        var taken = 0
        for _ in 0..<20_000 {
            let path =
                "/"
                + (0..<Int.random(in: 0...10, using: &random)).map { _ in pieces.randomElement(using: &random) ?? "" }
                .joined()
            guard let target = try? RequestTarget(upstream, path: path) else { continue }
            taken += 1
            let url = try #require(URL(string: target.url), "\(seed): \(path.debugDescription)")
            for form in [url, url.standardized, url.absoluteURL.standardizedFileURL] where form.isFileURL == false {
                let parts = try #require(URLComponents(url: form, resolvingAgainstBaseURL: true))
                #expect(parts.scheme == "http", "\(seed): \(path.debugDescription)")
                #expect(parts.host == "host.example", "\(seed): \(path.debugDescription)")
                #expect(parts.port == 8_080, "\(seed): \(path.debugDescription)")
                #expect(parts.user == nil && parts.fragment == nil, "\(seed): \(path.debugDescription)")
                #expect(parts.percentEncodedPath.hasPrefix("/base/v1/"), "\(seed): \(path.debugDescription)")
                let names = parts.path.split(whereSeparator: { "/\\".contains($0) })
                #expect(!names.contains("..") && !names.contains("."), "\(seed): \(path.debugDescription)")
            }
        }
        #expect(taken > 1_000)
    }
}
