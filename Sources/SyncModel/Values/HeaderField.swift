/// What may be a header's name and value, and which names nobody but us or the connection sets.
enum HeaderField {
    static let maximumValueBytes = 4_096

    /// Fields that say something about one connection only (RFC 9110, section 7.6.1), or about how a body is framed.
    static let hopByHop: Set<String> = [
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade", "host", "content-length",
    ]

    /// What we tell an upstream about a request ourselves.
    static let ours: Set<String> = ["idempotency-key", "x-sluice-organization", "x-sluice-user", "traceparent"]

    /// What tells an upstream who it is that asks.
    static let credentials: Set<String> = ["authorization", "cookie"]

    /// A token of RFC 9110, section 5.6.2.
    static func isName(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 48...57, 65...90, 97...122: true
                case 0x21, 0x23...0x27, 0x2a, 0x2b, 0x2d, 0x2e, 0x5e, 0x5f, 0x60, 0x7c, 0x7e: true
                default: false
                }
            }
    }

    /// No control characters but tabs, and not too long.
    static func isValue(_ text: String) -> Bool {
        text.utf8.count <= maximumValueBytes && text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7f) }
    }
}
