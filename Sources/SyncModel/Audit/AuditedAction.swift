public import FoundationEssentials
public import JSONText

/// An operator's action, or read access, as stored in the audit log.
///
/// The entry contains only names and ids, but no content from users and no secrets.
public struct AuditedAction: Sendable, Hashable {
    /// The value of ``organization`` for acts that concern no organization.
    public static let noOrganization = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    /// The maximum length of a target's value, in characters. Longer values are truncated.
    public static let longestValue = 255
    /// The maximum length of an actor, in bytes.
    public static let longestActor = 64

    /// The organization that the act concerns, or ``noOrganization``.
    public var organization: UUID
    /// The actor, which is an operator's name, or `cli:` and the name of the system's user.
    @Exact public var actor: String
    public var scope: OperatorScope
    /// The name of the operation in the API contract or, for an act without an operation, the name of the command.
    public var action: String
    /// The reason, in the operator's words.
    public var reason: String?
    /// The objects of the act, except users.
    ///
    /// Each object is a pair of a kind (`webhook`, `mutation` …) and an id.
    public var target: [(name: String, value: String)] {
        get { names.map { ($0.name, $0.value) } }
        set { names = newValue.map { Name(name: $0.name, value: String($0.value.prefix(Self.longestValue))) } }
    }
    /// The user whom the act concerns. The user is not part of the target, because an erasure removes the user's id.
    public var user: UUID?
    /// The user into whom ``user`` is joined.
    public var into: UUID?
    /// The id of the request, which is also in the log.
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

    /// The longest prefix with whole characters that has at most the given number of bytes.
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
    /// The user whom the act concerns, if this user became known only during the act.
    public var user: UUID?
    /// The user into whom ``user`` is joined.
    public var into: UUID?
    /// The reason from the request's body; nil if the reason was in a header.
    public var reason: String?

    public init() {}

    /// Adds a member, unless the outcome would then exceed ``maximumBytes``.
    public mutating func record(_ name: StaticString, _ value: some JSONWritable) {
        var writer = JSONWriter(capacity: 64)
        value.write(to: &writer)
        record(name, raw: writer.bytes)
    }

    /// Adds a member with a value in JSON, unless the outcome would then exceed ``maximumBytes``.
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
/// A valid reason has up to 500 bytes and no control characters.
public enum AuditReason {
    public static let maximumBytes = 500

    /// The reason in a text; nil if the text is not a valid reason.
    public static func reading(_ text: String) -> String? {
        (1...maximumBytes).contains(text.utf8.count) && !ExternalName.hasControls(text) ? text : nil
    }
}
