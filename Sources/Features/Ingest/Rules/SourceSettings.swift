package import Foundation
package import JSONText
package import SyncModel

/// What an operator set up of a source, without its secret.
package enum SourceSettings: Sendable, Hashable {
    case webhook(ReceiverSettings)
    case poller(PollerSettings)
    case postgres(ReplicationSettings)

    /// The largest settings, in bytes as they are stored.
    package static let maximumBytes = 65_536

    package var kind: SourceKind {
        switch self {
        case .webhook: .webhook
        case .poller: .poller
        case .postgres: .postgres
        }
    }

    /// Reads settings; nil if the report has a defect more.
    ///
    /// - Parameter pointer: the place of the settings in the request.
    package init?(_ kind: SourceKind, _ value: JSONValue, at pointer: String, _ report: inout MemberReport) {
        let before = report.count
        let settings: SourceSettings? =
            switch kind {
            case .webhook: ReceiverSettings(value, at: pointer, &report).map(Self.webhook)
            case .poller: PollerSettings(value, at: pointer, &report).map(Self.poller)
            case .postgres: ReplicationSettings(value, at: pointer, &report).map(Self.postgres)
            }
        guard let settings, report.count == before else { return nil }
        self = settings
    }

    /// Reads the stored form; nil if it cannot be read, for example if a newer gateway wrote it.
    package init?(_ kind: SourceKind, stored: [UInt8]) {
        guard let tree = try? JSONTree(parsing: stored) else { return nil }
        var report = MemberReport()
        self.init(kind, tree.root, at: "", &report)
    }

    /// The stored form, and what operators are shown.
    package var json: [UInt8] {
        JSONWriter.object { writer in
            switch self {
            case .webhook(let settings): settings.writeMembers(to: &writer)
            case .poller(let settings): settings.writeMembers(to: &writer)
            case .postgres(let settings): settings.writeMembers(to: &writer)
            }
        }
    }

    /// The mapping of items to events, for sources whose items are any JSON; nil if the kind defines its events.
    package var mapping: SourceMapping? {
        switch self {
        case .webhook(let settings): settings.mapping
        case .poller(let settings): settings.mapping
        case .postgres: nil
        }
    }

    /// The state that a worker begins with after an operator asked for everything from a place on.
    ///
    /// - Returns: nil if there is no such place, which the report has then.
    package func state(
        from value: JSONValue,
        at pointer: String,
        _ report: inout MemberReport
    ) -> [UInt8]? {
        switch self {
        case .webhook:
            report.refuse(pointer, Rule.unknownMember, "a webhook source only receives messages")
            return nil
        case .poller(let settings): return settings.state(from: value, at: pointer, &report)
        case .postgres: return ReplicationSettings.state(from: value, at: pointer, &report)
        }
    }

    /// Returns why the gateway will not connect to the address in a valid secret, as far as that is known before a name
    /// is resolved. It contains no password.
    package static func problem(
        ofSecret secret: String?,
        for kind: SourceKind,
        under policy: AddressPolicy
    ) -> String? {
        guard kind == .postgres, let secret, let uri = try? DatabaseURI(secret) else { return nil }
        return uri.problem(policy).map { "the connection URI \($0)" }
    }

    /// Returns why a text cannot be a secret of such a source; nil for a valid one, and if the kind needs no secret.
    ///
    /// Repeats nothing of it.
    package static func problem(ofSecret secret: String?, for kind: SourceKind) -> String? {
        switch kind {
        case .webhook: ReceiverSettings.problem(ofSecret: secret)
        case .poller: secret == nil ? nil : "a poller has no secret: requests use the upstream's credential"
        case .postgres: ReplicationSettings.problem(ofSecret: secret)
        }
    }
}

/// How a source brings an organization's edits.
package enum SourceKind: String, Sendable, Hashable, CaseIterable {
    /// Its API sends webhooks to the gateway.
    case webhook
    /// The gateway asks its API for what changed.
    case poller
    /// The gateway reads its database's log.
    case postgres

    /// Whether a worker of the gateway fetches its data.
    package var isWorkedOn: Bool { self != .webhook }
}

/// A configured source of an organization.
package struct SourceKey: Sendable, Hashable, Comparable {
    package let organization: UUID
    /// `[a-z][a-z0-9_-]{0,63}`. Events of service tokens with this name are of the same source.
    @Exact package private(set) var name: String

    package init(organization: UUID, name: String) {
        self.organization = organization
        self.name = name
    }

    package static func < (left: SourceKey, right: SourceKey) -> Bool {
        (left.organization, left.name) < (right.organization, right.name)
    }
}

/// A source of kind `webhook`: the organization's API sends Standard Webhooks.
package struct ReceiverSettings: TableObject, Hashable {
    package var mapping: SourceMapping

    package init(mapping: SourceMapping) {
        self.mapping = mapping
    }

    package init() { self.init(mapping: SourceMapping()) }

    package static let table = MemberTable<Self, Self>("the settings of a webhook source") {
        BodyMember("mapping", .object, as: \.mapping).required()
    }

    /// Why a text can be no secret; nil for a good one, or none: then one is made.
    static func problem(ofSecret secret: String?) -> String? { nil }
}
