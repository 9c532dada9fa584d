public import FoundationEssentials
public import JSONText

/// An operator's action, or read access, as stored in the audit log.
///
/// It contains only names and ids, no content that users wrote, and no secrets.
public struct AuditAct: Sendable, Hashable {
    /// The value of ``organization`` for acts that concern no organization.
    public static let noOrganization = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The longest value of a target, in characters. Longer values are truncated.
    public static let longestValue = 255
    /// The longest actor, in bytes.
    public static let longestActor = 64

    /// The organization that the act concerns, or ``noOrganization``.
    public var organization: UUID
    /// The actor: an operator's name, or `cli:` and the system's user.
    @Exact public var actor: String
    public var scope: OperatorScope
    /// The operation in the API contract, or the command's name for an act without an operation.
    public var action: String
    /// The reason, in the operator's words.
    public var reason: String?
    /// The objects that the act applies to, apart from users.
    ///
    /// Each is a pair of a kind (`webhook`, `mutation` …) and an id.
    public var target: [(name: String, value: String)] {
        get { names.map { ($0.name, $0.value) } }
        set { names = newValue.map { Name(name: $0.name, value: String($0.value.prefix(Self.longestValue))) } }
    }
    /// The user concerned. It is separate from the target, because an erasure removes it.
    public var user: UUID?
    /// The user into whom this user is joined.
    public var into: UUID?
    /// The request's id, as in the log.
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

    /// The longest prefix of whole characters that fits into a number of bytes.
    private static func cut(_ text: String, _ bytes: Int) -> String {
        var text = text
        while text.utf8.count > bytes { text.removeLast() }
        return text
    }
}

/// The outcome of an act, collected while the act runs.
public struct AuditOutcome: Sendable {
    /// The maximum size of a stored outcome, in bytes.
    static let maximumBytes = 8_192

    /// JSON members, in order.
    private var members: [(name: StaticString, value: [UInt8])] = []
    private var bytes = 0
    /// The user concerned, if that became known during the act.
    public var user: UUID?
    /// The user into whom this user is joined.
    public var into: UUID?
    /// The reason from the request's body; nil if a header contained the reason.
    public var reason: String?

    public init() {}

    /// Adds a member, unless it exceeds the limit.
    public mutating func record(_ name: StaticString, _ value: some JSONWritable) {
        var writer = JSONWriter(capacity: 64)
        value.write(to: &writer)
        record(name, raw: writer.bytes)
    }

    /// Adds a member whose value is given as JSON, unless it exceeds the limit.
    public mutating func record(_ name: StaticString, raw value: [UInt8]) {
        guard bytes + value.count <= Self.maximumBytes else { return }
        bytes += value.count
        members.append((name, value))
    }

    /// Adds the members of another outcome.
    public mutating func add(_ other: AuditOutcome) {
        for member in other.members { record(member.name, raw: member.value) }
        user = other.user ?? user
        into = other.into ?? into
        reason = other.reason ?? reason
    }

    /// The outcome as one JSON object.
    public var json: [UInt8] {
        JSONWriter.object(capacity: bytes + 64) { writer in
            for member in members { writer.member(member.name, raw: member.value) }
        }
    }
}

/// An operator's reason for an act, in the operator's own words.
///
/// Up to 500 bytes without control characters.
public enum AuditReason {
    public static let maximumBytes = 500

    /// The reason, or nil if the text is not a valid reason.
    public static func reading(_ text: String) -> String? {
        (1...maximumBytes).contains(text.utf8.count) && !ExternalName.hasControls(text) ? text : nil
    }
}
