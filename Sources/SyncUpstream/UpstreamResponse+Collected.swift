import JSONText
import NIOCore
import NIOHTTP1
import SyncModel

extension UpstreamResponse {
    private static let maximumETagBytes = 1_000
    private static let maximumLocationBytes = 8_192

    /// The parts of an answer that the gateway uses.
    ///
    /// - Parameter maximumBytes: the longest body that is read.
    init(_ collected: CollectedResponse, now: Timestamp, maximumBytes: Int = 1 << 20) {
        let headers = collected.head.headers
        let status = Int(collected.head.status.code)
        let body = Body(collected, maximumBytes: maximumBytes)
        let isSuccess = (200...299).contains(status)
        let location = headers.first(name: "Location") ?? (isSuccess ? headers.first(name: "Content-Location") : nil)
        self.init(
            status: status,
            retryAt: headers.first(name: "Retry-After").flatMap { Timestamp(retryAfter: $0, now: now) },
            location: location.flatMap { Self.atMost(Self.maximumLocationBytes, $0) },
            etag: headers.first(name: "ETag").flatMap { Self.isTag($0) ? $0 : nil },
            json: body.json,
            unkeptJSON: body.unkeptJSON,
            unusableBody: body.problem,
            isCutOff: collected.isCutOff
        )
        let challenge = collected.head.status == .unauthorized ? "WWW-Authenticate" : "Proxy-Authenticate"
        self.challenge = headers.first(name: challenge).flatMap(Self.scheme(of:))
    }

    /// A body, as far as it is JSON.
    private struct Body {
        var json: [UInt8]?
        var unkeptJSON: [UInt8]?
        var problem: UnusableBody?

        init(_ collected: CollectedResponse, maximumBytes: Int) {
            guard let buffer = collected.body else {
                problem = .tooLong(limit: maximumBytes)
                return
            }
            let bytes = Self.trimmed(Array(buffer.readableBytesView).withoutByteOrderMark)
            guard !bytes.isEmpty else { return }
            do throws(JSONParseError) {
                let tree = try JSONTree(parsing: bytes)
                // a part of an object is not JSON, but a part of a number may be
                if collected.isCutOff, bytes.first != UInt8(ascii: "{") { return }
                if tree.root.hasDefects { unkeptJSON = bytes } else { json = bytes }
            } catch {
                let headers = collected.head.headers
                problem = UnusableBody(bytes, encoding: headers.first(name: "Content-Encoding"), error: error)
            }
        }

        private static func trimmed(_ bytes: [UInt8]) -> [UInt8] {
            guard let first = bytes.firstIndex(where: { !isSpace($0) }),
                let last = bytes.lastIndex(where: { !isSpace($0) })
            else { return [] }
            return first == 0 && last == bytes.count - 1 ? bytes : Array(bytes[first...last])
        }

        private static func isSpace(_ byte: UInt8) -> Bool {
            byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
        }
    }

    /// Whether an ETag can be sent back in If-Match, and means there what it means here.
    ///
    /// Bytes beyond ASCII (RFC 9110, obs-text) need not be UTF-8. `*` would match any state. `w/"1"` is no weak tag, because
    /// `W/` is in upper case (RFC 9110, 8.8.3), and would be sent as a strong one. Two tags would match either. A tag without
    /// quotes is accepted, because some servers send and compare such tags.
    private static func isTag(_ text: String) -> Bool {
        guard text.utf8.count <= maximumETagBytes, UpstreamRequest.canCarry(text),
            text.utf8.allSatisfy({ $0 < 0x80 }), !text.hasPrefix("w/")
        else { return false }
        var tag = text.utf8[...]
        if text.hasPrefix("W/") { tag = tag.dropFirst(2) }
        let quote = UInt8(ascii: "\"")
        guard tag.contains(quote) else { return !tag.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: ",") } }
        return tag.count >= 2 && tag.first == quote && tag.last == quote
            && !tag.dropFirst().dropLast().contains(quote)
    }

    private static func atMost(_ bytes: Int, _ text: String) -> String? {
        text.utf8.count <= bytes ? text : nil
    }

    /// The scheme of a challenge (RFC 9110, 11.6.1), without its parameters.
    private static func scheme(of challenge: String) -> String? {
        let name = String(challenge.before(" ", "\t", ","))
        return UpstreamResponse.isScheme(name) ? name : nil
    }
}
