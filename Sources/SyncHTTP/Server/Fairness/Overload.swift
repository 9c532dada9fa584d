import Metrics
package import SyncModel

/// Counts a budget's refusals, and words the problem for clients whose organization has used its share.
package struct Overload: Sendable {
    /// Its name in metrics.
    package enum Kind: String {
        case bodies, unverified, verifying, decoding, answers, pages, waits, listeners
    }

    private let kind: Kind
    private let refusals: Counter

    package init(_ kind: Kind) {
        self.kind = kind
        refusals = Counter(label: HTTPMetrics.overloads, dimensions: [("budget", kind.rawValue)])
    }

    /// Counts a refusal, and returns its problem.
    package func problem() -> Problem {
        refusals.increment()
        var problem = Problem(.overloaded, explanation)
        problem.retryAfter = 1
        return problem
    }

    private var explanation: String {
        switch kind {
        case .bodies: "Too many bytes are being received at once."
        case .unverified, .verifying: "Too many messages are being received at once."
        case .decoding: "Too many pushes are waiting."
        case .answers: "Too many responses have not been read yet."
        case .pages: "Too many pages are being read at once."
        case .waits: "Too many requests are waiting."
        case .listeners: "Too many listeners are connected."
        }
    }
}
