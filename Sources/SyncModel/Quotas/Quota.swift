/// A number of tokens in a window of time. Unused tokens add up to one window's worth and no further: a bucket of
/// tokens that is refilled evenly.
public struct Quota: Sendable, Hashable {
    /// The unit that is counted, and the window.
    public enum Kind: String, Sendable, Hashable, CaseIterable {
        /// Requests of an organization, a second.
        case requests
        /// New mutations of a user, a day.
        case mutations

        /// The window, in milliseconds.
        var window: Int64 {
            switch self {
            case .requests: 1_000
            case .mutations: 86_400_000
            }
        }

        /// The most tokens that are taken in one piece, and so the deepest debt.
        ///
        /// Those of the largest push that `SLUICE_MAX_MUTATIONS` can allow.
        var overdraft: Int64 {
            switch self {
            case .requests: 0
            case .mutations: 10_000
            }
        }

        /// The window, in seconds.
        public var seconds: Int64 { window / 1_000 }
    }

    public let kind: Kind
    /// The number in a window, and at once: 1 to 1,000,000,000.
    public let limit: Int64

    public init(_ kind: Kind, limit: Int64) {
        self.kind = kind
        self.limit = limit
    }
}
