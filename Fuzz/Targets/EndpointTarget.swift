import Foundation

@testable import SyncModel

/// An accepted endpoint stays below the base URL with any ids in it. The input is a path; after a zero byte, an
/// upstream's id.
enum EndpointTarget {
    static func run(_ bytes: [UInt8]) {
        let (path, id) = halves(bytes) ?? (bytes, Array("..".utf8))
        guard let text = String(validating: path, as: UTF8.self) else { return }
        for base in ["https://api.test", "https://api.test:8443/v2/crm"] { checkTarget(base, text) }
        guard let endpoint = try? Endpoint(text) else { return }
        check(endpoint)
        guard let id = String(validating: id.prefix(ServerID.maximumBytes), as: UTF8.self) else { return }
        let server = ServerID(text: id, isInteger: false)
        let resolved = endpoint.resolved(own: server) { _ in server }
        expect(
            (PathRules.problem(in: resolved) == nil)
                == ((try? RequestTarget(UpstreamSettings(baseURL: "https://a"), path: resolved)) != nil),
            "has two results with ids in place: \(resolved.debugDescription)"
        )
        for separator in ["/", "?", "\\", "#"] as [Character] where !separator.isLetter {
            let counts = [endpoint.text, resolved].map {
                $0.unicodeScalars.filter { $0 == separator.unicodeScalars.first }
            }
            expect(counts[0].count == counts[1].count, "an id adds '\(separator)': \(resolved.debugDescription)")
        }
        expect(!resolved.utf8.contains { $0 <= 0x20 || $0 == 0x7f }, "an id adds a control character: \(resolved)")
        for base in ["https://api.test", "https://api.test:8443/v2/crm"] { checkTarget(base, resolved) }
    }

    /// The invariants of every accepted endpoint.
    static func check(_ endpoint: Endpoint) {
        let text = endpoint.text
        expect(text.utf8.first == 0x2f && text.utf8.dropFirst().first != 0x2f, "does not begin with exactly one slash")
        expect(text.utf8.count <= Endpoint.maximumBytes, "is too long")
        expect(!text.utf8.contains { $0 <= 0x20 || $0 == 0x7f || $0 == 0x5c || $0 == 0x23 }, "has an invalid character")
        let path = text.utf8.prefix { $0 != 0x3f }
        guard let decoded = Substring(path).removingPercentEncoding else { return expect(false, "is not UTF-8") }
        expect(!decoded.utf8.contains { $0 < 0x20 || $0 == 0x7f }, "has an encoded control character")
        checkReadings(String(Substring(path)), of: text)
        expect(PathRules.problem(in: UpstreamRequest.encoded(path: text)) == nil, "the form to send is refused")
        expect(endpoint.rewritten { _ in nil } == text, "changes although nothing is replaced")
        let same = endpoint.rewritten { ServerID($0) }
        expect(same.lowercased() == text.lowercased(), "replacing a UUID with itself changes something")
        let uuids = endpoint.uuids
        expect((try? Endpoint(same))?.uuids == uuids, "two searches find different UUIDs")
    }

    /// Refused, or below the base URL by every interpretation.
    private static func checkTarget(_ base: String, _ path: String) {
        guard let target = try? RequestTarget(UpstreamSettings(baseURL: base), path: path) else {
            return expect(PathRules.problem(in: path) != nil, "is accepted and not sent: \(path.debugDescription)")
        }
        expect(target.url.utf8.starts(with: (base + "/").utf8), "leaves \(base): \(target.url)")
        expect(target.url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }, "is not ASCII: \(target.url)")
        expect(
            target.base.isTLS && base.hasSuffix(target.base.host.split(separator: ":").last ?? "")
                || base.contains(target.base.host),
            "another host: \(target.base.host)"
        )
        guard let url = URL(string: target.url) else { return }
        expect(url.host == "api.test" && url.scheme == "https" && url.user == nil, "another host: \(target.url)")
        checkReadings(String(target.url.dropFirst(base.count).prefix { $0 != "?" }), of: target.url)
    }

    /// For any number of decodings and any truncation of its segments, no segment consists of dots, and no host comes
    /// first.
    private static func checkReadings(_ path: String, of whole: String) {
        var text = path
        for _ in 0..<8 {
            expect(
                !["//", "/\\"].contains { text.utf8.starts(with: $0.utf8) },
                "names a host after decoding: \(whole)"
            )
            for segment in text.utf8.split(whereSeparator: { $0 == 0x2f || $0 == 0x5c }) {
                let name = Array(segment.prefix { ![0x3b, 0, 0x3f, 0x23].contains($0) })
                expect(name != [0x2e] && name != [0x2e, 0x2e], "leaves the base URL after decoding: \(whole)")
            }
            guard let decoded = text.removingPercentEncoding, decoded != text else { return }
            text = decoded
        }
    }
}
