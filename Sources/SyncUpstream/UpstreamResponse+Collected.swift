import JSONText
import NIOCore
import NIOHTTP1
import SyncModel

extension UpstreamResponse {
    private static let maximumETagBytes = 1_000
    private static let maximumLocationBytes = 8_192

    /// The parts of an answer that the gateway uses.
    init(_ collected: CollectedResponse, now: Timestamp) {
        let headers = collected.head.headers
        let body = collected.body.flatMap(Self.json).flatMap {
            // a part of an object is not JSON, but a part of a number may be
            collected.isCutOff && $0.bytes.first != UInt8(ascii: "{") ? nil : $0
        }
        self.init(
            status: Int(collected.head.status.code),
            retryAt: headers.first(name: "Retry-After").flatMap { Timestamp(retryAfter: $0, now: now) },
            location: headers.first(name: "Location").flatMap { Self.atMost(Self.maximumLocationBytes, $0) },
            // a tag that could not be sent back in If-Match as it came is dropped: bytes beyond ASCII (RFC 9110, obs-text)
            // need not be UTF-8
            etag: headers.first(name: "ETag").flatMap { Self.atMost(Self.maximumETagBytes, $0) }.flatMap {
                UpstreamRequest.canCarry($0) && $0.utf8.allSatisfy { $0 < 0x80 } ? $0 : nil
            },
            challenge: headers.first(
                name: collected.head.status == .unauthorized ? "WWW-Authenticate" : "Proxy-Authenticate"
            )
            .flatMap(Self.scheme(of:)),
            json: body.flatMap { $0.canBeKept ? $0.bytes : nil },
            unkeptJSON: body.flatMap { $0.canBeKept ? nil : $0.bytes },
            isCutOff: collected.isCutOff
        )
    }

    private static func atMost(_ bytes: Int, _ text: String) -> String? {
        text.utf8.count <= bytes ? text : nil
    }

    /// The scheme of a challenge (RFC 9110, 11.6.1), without its parameters.
    private static func scheme(of challenge: String) -> String? {
        let name = String(challenge.before(" ", "\t", ","))
        return UpstreamResponse.isScheme(name) ? name : nil
    }

    /// The body, when it is JSON, and whether it can be stored and read back.
    private static func json(_ body: ByteBuffer) -> (bytes: [UInt8], canBeKept: Bool)? {
        let view = body.readableBytesView
        guard let first = view.firstIndex(where: { !isSpace($0) }), let last = view.lastIndex(where: { !isSpace($0) })
        else { return nil }
        let bytes = Array(view[first...last])
        guard let tree = try? JSONTree(parsing: bytes) else { return nil }
        return (bytes, !tree.root.hasDefects)
    }

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09
    }
}
