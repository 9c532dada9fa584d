/// An organization's settings.
///
/// Each has a default, which applies until an operator sets another value.
public struct OrganizationSettings: Sendable, Hashable {
    public var provisioning: Provisioning = .onFirstPush
    /// Whether entity types must be declared.
    public var entityTypes: EntityTypePolicy = .open
    /// What a lane does when a mutation fails.
    public var onFailure: FailurePolicy = .continue
    /// What a lane does when a mutation conflicts.
    public var onConflict: FailurePolicy = .halt
    /// Strategy of mutations that name none.
    public var conflictResolution: ConflictResolution = .manual
    /// Age in days after which a mutation's `created_at` counts as stale; 1 to 3,650.
    public var staleAfterDays = 14
    /// Requests that the organization may make a second.
    ///
    /// 1 to 1,000,000; nil for any number.
    public var requestsPerSecond: Int64?
    /// New mutations that each user may push a day.
    ///
    /// 1 to 1,000,000,000; nil for any number.
    public var mutationsPerDayPerUser: Int64?

    /// Whether users have their own data keys, so that an erasure reaches backups.
    public var userKeys = false

    public init() {}

    /// Nil for any number.
    public var requestQuota: Quota? { requestsPerSecond.map { Quota(.requests, limit: $0) } }

    /// Nil for any number.
    public var mutationQuota: Quota? { mutationsPerDayPerUser.map { Quota(.mutations, limit: $0) } }

    public var hasQuota: Bool { requestsPerSecond != nil || mutationsPerDayPerUser != nil }

    /// Whether a mutation that gets this status halts its lane (product rule 4).
    ///
    /// The halt ends when a person settles it.
    public func halts(at status: MutationStatus) -> Bool {
        switch status {
        case .failed: onFailure == .halt
        case .conflict: onConflict == .halt
        default: false
        }
    }
}
