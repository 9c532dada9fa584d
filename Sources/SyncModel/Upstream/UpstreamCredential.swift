/// How the gateway authenticates itself to an organization's upstream.
public enum UpstreamCredential: Sendable, Hashable {
    /// `Authorization: Bearer …`, the same for all users.
    case bearer(String)
    /// A header of the operator's choice, the same for all users.
    case header(name: String, value: String)
    /// `Authorization: Bearer` with a short-lived JWT for the mutation's user.
    ///
    /// Sluice signs it.
    case signed

    /// Compares texts by their bytes.
    public static func == (left: UpstreamCredential, right: UpstreamCredential) -> Bool {
        switch (left, right) {
        case (.bearer(let left), .bearer(let right)): left == right
        case (.header(let leftName, let leftValue), .header(let rightName, let rightValue)):
            leftName == rightName && leftValue == rightValue
        case (.signed, .signed): true
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .bearer(let token): token.hashBytes(into: &hasher)
        case .header(let name, let value):
            name.hashBytes(into: &hasher)
            value.hashBytes(into: &hasher)
        case .signed: hasher.combine(2)
        }
    }
}
