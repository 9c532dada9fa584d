import SyncModel

/// Where a request goes: a path below an organization's base URL, and never elsewhere.
///
/// Settings and endpoints are checked when they come in, and paths again once ids from upstreams stand in them. The same
/// rules are asked here once more, about what is really to be sent, because a mistake would hand one organization's
/// credential to another's server.
struct RequestTarget: Sendable, Equatable {
    /// Scheme, authority, path and query, in ASCII.
    let url: String
    /// What `Host` says: no port where it is the scheme's own.
    let host: String
    let isTLS: Bool

    /// Why a request is not sent; for operators and users.
    enum Unsendable: Error, Equatable {
        /// It can be sent nowhere as it is.
        case request(String)
        /// Nothing can be sent to this upstream, as it is set up here.
        case setup(String)

        /// What the request comes to.
        var answer: UpstreamAnswer {
            switch self {
            case .request(let reason): .refused(reason)
            case .setup(let reason): .unready(reason)
            }
        }
    }

    init(baseURL: String, path: String) throws(Unsendable) {
        if let problem = UpstreamSettings.baseURLProblem(baseURL) {
            throw Unsendable.setup("the upstream's base URL \(problem)")
        }
        let base = UpstreamSettings.normalizedBaseURL(baseURL)
        isTLS = base.hasPrefix("https:")
        let authority = base.dropFirst(isTLS ? 8 : 7).prefix { $0 != "/" }
        let port = isTLS ? ":443" : ":80"
        host = String(authority.hasSuffix(port) ? authority.dropLast(port.count) : authority)
        if let problem = PathRules.problem(in: path) { throw Unsendable.request("the path \(problem)") }
        url = base + UpstreamRequest.encoded(path: path)
    }
}
