import SyncModel

/// Where a request goes: a path below an organization's base URL, and never elsewhere.
///
/// Settings and endpoints are checked when they come in. This is checked again, on what is really to be sent, because
/// ids from upstreams have been put into paths in between, and because a mistake here would hand one organization's
/// credential to another's server.
struct RequestTarget: Sendable, Equatable {
    /// Scheme, authority, path and query, in ASCII.
    let url: String
    /// What `Host` says: no port where it is the scheme's own.
    let host: String
    let isTLS: Bool

    /// Why a request has no place to go; for operators and users.
    struct Refusal: Error, Equatable {
        let reason: String
    }

    init(baseURL: String, path: String) throws(Refusal) {
        if let problem = UpstreamSettings.baseURLProblem(baseURL) {
            throw Refusal(reason: "the upstream's base URL \(problem)")
        }
        let base = UpstreamSettings.normalizedBaseURL(baseURL)
        isTLS = base.hasPrefix("https:")
        let authority = base.dropFirst(isTLS ? 8 : 7).prefix { $0 != "/" }
        let port = isTLS ? ":443" : ":80"
        host = String(authority.hasSuffix(port) ? authority.dropLast(port.count) : authority)
        url = base + String(decoding: try Self.encoded(path), as: UTF8.self)
    }

    /// The path and query, with everything percent-encoded that a URL does not hold as it is.
    private static func encoded(_ path: String) throws(Refusal) -> [UInt8] {
        let bytes = Array(path.utf8)
        guard bytes.first == UInt8(ascii: "/"), bytes.dropFirst().first != UInt8(ascii: "/") else {
            throw Refusal(reason: "the path does not begin with one slash")
        }
        let isClean = bytes.allSatisfy {
            $0 > 0x20 && $0 != 0x7f && $0 != UInt8(ascii: "\\") && $0 != UInt8(ascii: "#")
        }
        guard isClean else { throw Refusal(reason: "the path has a space, control character, backslash or fragment") }
        let end = bytes.firstIndex(of: UInt8(ascii: "?")) ?? bytes.endIndex
        for segment in bytes[..<end].split(separator: UInt8(ascii: "/")) where PathSegment.mayLeave(segment) {
            throw Refusal(reason: "the path has a '.' or '..' segment")
        }
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        for (index, byte) in bytes.enumerated() {
            if isKept(byte) || (byte == UInt8(ascii: "%") && isEscape(bytes[index...])) {
                output.append(byte)
            } else {
                output += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return output
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    /// RFC 3986: unreserved, sub-delims, ":", "@", "/" and "?".
    private static func isKept(_ byte: UInt8) -> Bool {
        switch byte {
        case 48...58, 63...90, 97...122, 0x5f, 0x7e, 0x21, 0x24, 0x26...0x2f, 0x3b, 0x3d: true
        default: false
        }
    }

    private static func isEscape(_ bytes: ArraySlice<UInt8>) -> Bool {
        let digits = bytes.dropFirst().prefix(2)
        return digits.count == 2 && digits.allSatisfy { PathSegment.hexValue($0) != nil }
    }
}
