public import Foundation
public import JSONText

/// The outcome of an act, collected while the act runs.
public struct AuditOutcome: Sendable {
    /// The most that is stored of the outcome, in bytes.
    static let maximumBytes = 8_192

    /// JSON members, in order.
    private var members: [(name: StaticString, value: [UInt8])] = []
    private var bytes = 0
    /// The user concerned, if that became known during the act.
    public var user: UUID?
    /// The user into whom this user is joined.
    public var into: UUID?
    /// The reason, where the request's body contained it and no header did.
    public var reason: String?

    public init() {}

    /// Adds a member, unless it exceeds the limit.
    public mutating func record(_ name: StaticString, _ value: some JSONWritable) {
        var writer = JSONWriter(capacity: 64)
        value.write(to: &writer)
        record(name, raw: writer.bytes)
    }

    /// Adds a member whose value is JSON already.
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

    /// One object.
    public var json: [UInt8] {
        JSONWriter.object(capacity: bytes + 64) { writer in
            for member in members { writer.member(member.name, raw: member.value) }
        }
    }
}
