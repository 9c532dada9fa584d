/// What a mutation does to its entity (seed 001, `operation`).
public enum Operation: String, Sendable, Hashable, CaseIterable {
    case create
    case update
    case replace
    case delete

    /// Reads the name of an operation, or its HTTP verb.
    ///
    /// Seed 001, `operation_must_be_valid_verb`.
    public init?(wire text: String) {
        switch text {
        case "create", "POST": self = .create
        case "update", "PATCH": self = .update
        case "replace", "PUT": self = .replace
        case "delete", "DELETE": self = .delete
        default: return nil
        }
    }

    /// The HTTP method of the replay.
    public var method: String {
        switch self {
        case .create: "POST"
        case .update: "PATCH"
        case .replace: "PUT"
        case .delete: "DELETE"
        }
    }
}
