/// How a user is created.
public enum Provisioning: String, Sendable, Hashable, CaseIterable {
    /// By the user's first push with a valid token.
    case onFirstPush = "on_first_push"
    /// Only by an operator.
    case explicit
}
