/// Who brings a user into being.
public enum Provisioning: String, Sendable, Hashable, CaseIterable {
    /// The first push of a user with a valid token does.
    case onFirstPush = "on_first_push"
    /// Only an operator does.
    case explicit
}
