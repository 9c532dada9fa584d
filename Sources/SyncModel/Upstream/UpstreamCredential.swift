/// How the gateway authenticates itself to an organization's upstream.
public enum UpstreamCredential: Sendable, Hashable {
    /// `Authorization: Bearer …`, the same for all users.
    case bearer(String)
    /// A header of the operator's choice, the same for all users.
    case header(name: String, value: String)
    /// `Authorization: Bearer` with a short-lived JWT that Sluice signs for the mutation's user.
    case signed
}
