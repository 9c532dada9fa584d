import JSONText

/// Which headers a mutation may carry: an object of strings, none that the gateway or the connection owns.
enum HeaderRules {
    static let maximumCount = 32
    static let maximumValueBytes = 4_096

    /// Hop-by-hop fields (RFC 9110, section 7.6.1), and those that are ours to set.
    private static let refused: Set<String> = [
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade", "host", "authorization", "cookie", "content-length", "idempotency-key",
        "x-sluice-organization", "x-sluice-user", "traceparent",
    ]

    /// Reports everything that is wrong with `headers` at `pointer`.
    static func check(_ headers: JSONValue, pointer: String, report: (ProblemDetail) -> Void) {
        guard let members = headers.members else {
            return report(
                ProblemDetail(pointer: pointer, rule: Rule.memberType, detail: "headers must be an object of strings")
            )
        }
        var count = 0
        for (name, value) in members {
            count += 1
            let name = name.string
            let place = pointer + JSONPointer.member(name)
            if !isToken(name) {
                report(
                    ProblemDetail(pointer: place, rule: Rule.header, detail: "is not a header name (RFC 9110 token)")
                )
            } else if refused.contains(name.lowercased()) {
                report(
                    ProblemDetail(
                        pointer: place,
                        rule: Rule.header,
                        detail: "\(name) is set by the gateway; leave it out"
                    )
                )
            }
            guard let text = value.string else {
                report(
                    ProblemDetail(pointer: place, rule: Rule.memberType, detail: "a header's value must be a string")
                )
                continue
            }
            let isClean = text.utf8.allSatisfy { $0 == 0x09 || ($0 >= 0x20 && $0 != 0x7f) }
            if !isClean || text.utf8.count > maximumValueBytes {
                let detail = "a header's value may have no control characters and at most \(maximumValueBytes) bytes"
                report(ProblemDetail(pointer: place, rule: Rule.header, detail: detail))
            }
        }
        if count > maximumCount {
            let detail = "at most \(maximumCount) headers, got \(count)"
            report(ProblemDetail(pointer: pointer, rule: Rule.range, detail: detail))
        }
    }

    /// RFC 9110, section 5.6.2.
    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 48...57, 65...90, 97...122: true
                case 0x21, 0x23...0x27, 0x2a, 0x2b, 0x2d, 0x2e, 0x5e, 0x5f, 0x60, 0x7c, 0x7e: true
                default: false
                }
            }
    }
}
