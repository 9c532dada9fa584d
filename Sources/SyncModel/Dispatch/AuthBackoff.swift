/// A count of answers of unclear cause to a mutation's requests.
///
/// 401, 407 or a redirect may be caused by the operator's configuration or by the mutation (product rule 11). The
/// worker retries after a pause, and no attempt is spent.
public struct AuthBackoff: Sendable, Hashable {
    /// Such answers to this revision in a row; 1 or more.
    public var count: Int16
    /// When the first of them came.
    ///
    /// If the upstream accepts other requests after this, the mutation itself is the cause.
    public var since: Timestamp

    public init(count: Int16, since: Timestamp) {
        self.count = count
        self.since = since
    }

    /// The hold after one more such answer.
    static func next(after hold: AuthBackoff?, now: Timestamp) -> AuthBackoff {
        guard let hold else { return AuthBackoff(count: 1, since: now) }
        return AuthBackoff(count: hold.count == .max ? .max : hold.count + 1, since: hold.since)
    }
}
