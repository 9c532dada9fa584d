public import FoundationEssentials
public import JSONText

/// An organization, which is a tenant of the gateway.
public struct Organization: Sendable, Hashable {
    /// The organization's id.
    public var id: UUID
    /// The name for operators, which has 1 to 200 characters.
    @Exact public var name: String
    public var status: OrganizationStatus
    public var settings: OrganizationSettings
    /// The upstream to which mutations of forwarded types are sent.
    ///
    /// The value is nil if the organization has no upstream.
    public var upstream: UpstreamSettings?

    public init(
        id: UUID,
        name: String,
        status: OrganizationStatus,
        settings: OrganizationSettings,
        upstream: UpstreamSettings? = nil
    ) {
        self.id = id
        self.name = name
        self.status = status
        self.settings = settings
        self.upstream = upstream
    }
}

/// The status of an organization, which determines whether it is served.
public enum OrganizationStatus: String, Sendable, Hashable, CaseIterable {
    case active
    case suspended
    /// The organization's data is being deleted. This status never changes.
    case purging
}

/// An organization's settings.
///
/// Each setting has a default, which applies until an operator sets another value.
public struct OrganizationSettings: Sendable, Hashable {
    public var provisioning: Provisioning = .onFirstPush
    /// Whether entity types must be declared.
    public var entityTypes: EntityTypePolicy = .open
    /// The effect on a lane when a mutation fails.
    public var onFailure: FailurePolicy = .continue
    /// The effect on a lane when a mutation is in conflict.
    public var onConflict: FailurePolicy = .halt
    /// The strategy of mutations that specify no strategy.
    public var conflictResolution: ConflictResolution = .manual
    /// The age above which a mutation is stale, in days from 1 to 3,650. The age is counted from `created_at`.
    public var staleAfterDays = 14
    /// The maximum number of requests of the organization per second, from 1 to 1,000,000; nil without a limit.
    public var requestsPerSecond: Int64?
    /// The maximum number of new mutations per user and day, from 1 to 1,000,000,000; nil without a limit.
    public var mutationsPerDayPerUser: Int64?

    /// The mutations of a lane that may run at the same time.
    public var order = LaneOrder.lane
    /// The maximum number of a user's mutations in flight, from 1 to 32. The maximum applies if ``order`` permits more
    /// than one.
    public var maxInFlightPerUser = 8
    /// Whether users have their own data keys. With these keys, an erasure also takes effect in backups.
    public var userKeys = false

    public init() {}

    /// The quota of requests; nil without a limit.
    public var requestQuota: Quota? { requestsPerSecond.map { Quota(.requests, limit: $0) } }

    /// The quota of mutations for each user; nil without a limit.
    public var mutationQuota: Quota? { mutationsPerDayPerUser.map { Quota(.mutations, limit: $0) } }

    public var hasQuota: Bool { requestsPerSecond != nil || mutationsPerDayPerUser != nil }

    /// Whether a mutation that gets this status halts its lane (product rule 4).
    ///
    /// The halt ends when a person settles the mutation.
    public func halts(at status: MutationStatus) -> Bool {
        switch status {
        case .failed: onFailure == .halt
        case .conflict: onConflict == .halt
        default: false
        }
    }
}

extension OrganizationSettings: TableObject {
    package static let table = MemberTable<Self, Self>("settings", unknown: "is not a setting") {
        BodyMember("provisioning", .oneOf, as: \.provisioning)
        BodyMember("entity_types", .oneOf, as: \.entityTypes)
        BodyMember("on_failure", .oneOf, as: \.onFailure)
        BodyMember("on_conflict", .oneOf, as: \.onConflict)
        BodyMember("conflict_resolution", .oneOf, as: \.conflictResolution)
        BodyMember("stale_after_days", .integer(1...3_650), as: \.staleAfterDays)
        BodyMember("requests_per_second", .integer(1...1_000_000), into: \.requestsPerSecond)
            .shown(\.requestsPerSecond)
        BodyMember("mutations_per_day_per_user", .integer(1...1_000_000_000), into: \.mutationsPerDayPerUser)
            .shown(\.mutationsPerDayPerUser)
        BodyMember("order", .oneOf, as: \.order)
        BodyMember("max_in_flight_per_user", .integer(1...32), as: \.maxInFlightPerUser)
        BodyMember("user_keys", .bool(rule: Rule.range), as: \.userKeys)
    }

    /// Reads the stored form. Absent and unknown values get their defaults.
    public init(stored value: JSONValue) {
        self.init()
        var ignored = MemberReport()
        Self.table.read(value, at: "", into: &self, &ignored)
    }

    public func write(to writer: inout JSONWriter) { writer.object(writeMembers) }
}
