package import FoundationEssentials
package import JSONText
package import SyncModel

/// An operator's settings of a source, without its secret.
package enum SourceSettings: Sendable, Hashable {
    case webhook(ReceiverSettings)
    case poller(PollerSettings)
    case postgres(ReplicationSettings)

    /// The maximum size of stored settings, in bytes.
    package static let maximumBytes = 65_536

    package var kind: SourceKind {
        switch self {
        case .webhook: .webhook
        case .poller: .poller
        case .postgres: .postgres
        }
    }

    /// Reads settings. If they are invalid, adds errors to the report and returns nil.
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

    /// Reads the stored form; nil if it is invalid, for example because a newer gateway wrote it.
    package init?(_ kind: SourceKind, stored: [UInt8]) {
        guard let tree = try? JSONTree(parsing: stored) else { return nil }
        var report = MemberReport()
        self.init(kind, tree.root, at: "", &report)
    }

    /// The stored form, which operators also see.
    package var json: [UInt8] {
        JSONWriter.object { writer in
            switch self {
            case .webhook(let settings): settings.writeMembers(to: &writer)
            case .poller(let settings): settings.writeMembers(to: &writer)
            case .postgres(let settings): settings.writeMembers(to: &writer)
            }
        }
    }

    /// The mapping of items to events; nil for a kind of source that makes events without a mapping.
    package var mapping: SourceMapping? {
        switch self {
        case .webhook(let settings): settings.mapping
        case .poller(let settings): settings.mapping
        case .postgres: nil
        }
    }

    /// Returns the state with which a worker reads all data from a place on, as an operator has requested.
    ///
    /// - Returns: the state. If the value is not a valid place, returns nil and adds an error to the report.
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

    /// Returns the reason why the gateway does not connect to the address in a valid secret; nil if there is no such
    /// reason.
    ///
    /// The host name is not resolved here, so the address that it resolves to is not checked. The text contains no
    /// password.
    package static func problem(
        ofSecret secret: String?,
        for kind: SourceKind,
        under policy: AddressPolicy
    ) -> String? {
        guard kind == .postgres, let secret, let uri = try? DatabaseURI(secret) else { return nil }
        return uri.problem(policy).map { "the connection URI \($0)" }
    }

    /// Returns the reason why a text cannot be the secret of such a source; nil for a valid secret.
    ///
    /// Also returns nil if the kind needs no secret. The reason contains no part of the text.
    package static func problem(ofSecret secret: String?, for kind: SourceKind) -> String? {
        switch kind {
        case .webhook: ReceiverSettings.problem(ofSecret: secret)
        case .poller: secret == nil ? nil : "a poller has no secret: requests use the upstream's credential"
        case .postgres: ReplicationSettings.problem(ofSecret: secret)
        }
    }
}

/// How the gateway gets changes that were made outside of Sluice.
package enum SourceKind: String, Sendable, Hashable, CaseIterable {
    /// The organization's API sends webhooks to the gateway.
    case webhook
    /// The gateway requests changes from the organization's API.
    case poller
    /// The gateway reads the log of the organization's database.
    case postgres

    /// Whether the gateway fetches the source's data. If not, the source sends its data to the gateway.
    package var isWorkedOn: Bool { self != .webhook }
}

/// The organization and the name of a source.
package struct SourceKey: Sendable, Hashable, Comparable {
    package let organization: UUID
    /// The name, of the form `[a-z][a-z0-9_-]{0,63}`. Events that are reported with a service token for this name
    /// belong to the same source.
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

    /// Returns nil, because a request's secret has already been checked, and the gateway generates a missing secret.
    static func problem(ofSecret secret: String?) -> String? { nil }
}
