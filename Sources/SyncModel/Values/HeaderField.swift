/// The rules for the names and values of headers.
///
/// The rules include the names of headers that only the gateway or the connection sets.
package enum HeaderField {
    static let maximumValueBytes = 4_096

    /// The headers that concern a single connection (RFC 9110, section 7.6.1), or the framing of a body.
    static let hopByHop: Set<ByteExactString> = [
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade", "host", "content-length",
    ]

    /// The headers with which the gateway describes a request to an upstream.
    static let ours: Set<ByteExactString> = [
        "idempotency-key", "x-sluice-organization", "x-sluice-user", "traceparent",
    ]

    /// The headers that authenticate the sender to an upstream.
    static let credentials: Set<ByteExactString> = ["authorization", "cookie"]

    /// The headers that upstream servers, and the proxies in front of them, obey or trust.
    ///
    /// These headers change the method, the path or the sender. All names are in their folded form.
    private static let obeyed: Set<ByteExactString> = [
        "accept-encoding", "content-encoding", "cookie2", "expect", "forwarded", "http2-settings", "set-cookie",
        "true-client-ip", "via", "x-client-ip", "x-host", "x-method-override", "x-real-ip",
    ]
    private static let obeyedPrefixes = [
        "proxy-", "x-accel-", "x-forwarded", "x-http-method", "x-middleware-", "x-original-", "x-rewrite-", "x-sluice-",
    ]
    private static let reserved = hopByHop.union(ours).union(credentials).union(obeyed)

    /// The form in which some servers compare the names of headers.
    ///
    /// These servers pass headers to programs as variables (CGI, WSGI and similar).
    static func folded(_ name: String) -> String {
        String(
            decoding: name.utf8.map { byte -> UInt8 in
                switch byte {
                case 48...57, 97...122: byte
                case 65...90: byte + 32
                default: 0x2d
                }
            },
            as: UTF8.self
        )
    }

    /// Whether the header is forbidden in mutations, in any spelling. Operators cannot allow such a header.
    ///
    /// Only the gateway, the connection and intermediate proxies may set such a header.
    static func isReserved(_ name: String) -> Bool {
        let folded = folded(name)
        return reserved.contains(folded) || obeyedPrefixes.contains { folded.hasPrefix($0) }
    }

    /// Whether the gateway or the connection sets the header, in any spelling.
    static func isOurs(_ name: String) -> Bool {
        let folded = folded(name)
        return hopByHop.contains(folded) || ours.contains(folded) || folded.hasPrefix("x-sluice-")
    }

    /// Whether a text is a token of RFC 9110, section 5.6.2.
    package static func isName(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 48...57, 65...90, 97...122: true
                case 0x21, 0x23...0x27, 0x2a, 0x2b, 0x2d, 0x2e, 0x5e, 0x5f, 0x60, 0x7c, 0x7e: true
                default: false
                }
            }
    }

    /// A value without the spaces and tabs around it, which are not part of the value (RFC 9110, 5.5).
    package static func trimmed(_ value: String) -> String {
        let bytes = value.utf8
        guard let first = bytes.firstIndex(where: { !isBlank($0) }), let last = bytes.lastIndex(where: { !isBlank($0) })
        else { return "" }
        return String(value[first..<bytes.index(after: last)])
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

    /// Whether a text has no control characters except tabs, and is not too long.
    static func isValue(_ text: String) -> Bool {
        text.utf8.count <= maximumValueBytes && text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7f) }
    }
}
