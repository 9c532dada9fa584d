public import Foundation

/// An operator's action, or read access, as stored in the audit log.
///
/// It has names and ids alone: nothing that users wrote, no secret.
public struct AuditAct: Sendable, Hashable {
    /// The organization of acts that concern none.
    public static let noOrganization = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The longest value of a target, in characters; more is cut off.
    public static let longestValue = 255
    /// The longest actor, in bytes.
    public static let longestActor = 64

    /// The organization that the act is about, else ``noOrganization``.
    public var organization: UUID
    /// The actor: an operator's name, or `cli:` and the system's user.
    @Exact public var actor: String
    public var scope: OperatorScope
    /// The act's operation in the API contract, else the command's name.
    public var action: String
    /// Why, in the operator's words.
    public var reason: String?
    /// What the act applies to, apart from users.
    ///
    /// Pairs of a kind (`webhook`, `mutation` …) and an id.
    public var target: [(name: String, value: String)] {
        get { names.map { ($0.name, $0.value) } }
        set { names = newValue.map { Name(name: $0.name, value: String($0.value.prefix(Self.longestValue))) } }
    }
    /// The user concerned. Separate from the target, since an erasure removes it.
    public var user: UUID?
    /// The user into whom this user is joined.
    public var into: UUID?
    /// The request's id, as the log has it.
    @Exact public var requestID: String?

    private var names: [Name] = []

    private struct Name: Sendable, Hashable {
        @Exact private(set) var name: String
        @Exact private(set) var value: String
    }

    public init(
        of organization: UUID?,
        by actor: String,
        scope: OperatorScope,
        _ action: String,
        reason: String? = nil,
        requestID: String? = nil
    ) {
        self.organization = organization ?? Self.noOrganization
        self.actor = Self.cut(actor, Self.longestActor)
        self.scope = scope
        self.action = action
        self.reason = reason
        self.requestID = requestID
    }

    /// As many characters as fit into so many bytes.
    private static func cut(_ text: String, _ bytes: Int) -> String {
        var text = text
        while text.utf8.count > bytes { text.removeLast() }
        return text
    }
}
