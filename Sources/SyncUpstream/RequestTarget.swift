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
        try Self.check(path)
        url = base + UpstreamRequest.encoded(path: path)
    }

    /// A path that could lead elsewhere than below the base URL has no place.
    private static func check(_ path: String) throws(Refusal) {
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
    }
}
