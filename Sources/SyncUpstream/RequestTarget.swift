import SyncModel

/// The URL of a request, which is always below an organization's base URL.
///
/// The gateway checks settings and endpoints when it receives them, and checks paths again after it has inserted ids
/// from upstreams. This type applies the same rules to the final URL, because a mistake would send one organization's
/// credential to another organization's server.
struct RequestTarget: Sendable, Equatable {
    /// Scheme, authority, path and query, in ASCII.
    @Exact private(set) var url: String
    let base: BaseURL

    /// The reason why a request is not sent, for operators and users.
    enum Unsendable: Error, Equatable {
        /// This request cannot be sent to any upstream.
        case request(String)
        /// No request can be sent to this upstream until its settings change.
        case setup(String)

        var reason: String {
            switch self {
            case .request(let reason), .setup(let reason): reason
            }
        }

        var answer: UpstreamAnswer {
            switch self {
            case .request(let reason): .refused(reason)
            case .setup(let reason): .unready(reason)
            }
        }
    }

    init(_ upstream: UpstreamSettings, path: String) throws(Unsendable) {
        switch upstream.base {
        case .success(let base): self.base = base
        case .failure(let error): throw Unsendable.setup("the upstream's base URL \(error.reason)")
        }
        if let problem = PathRules.problem(in: path) { throw Unsendable.request("the path \(problem)") }
        url = base.text + UpstreamRequest.encoded(path: path)
    }
}
