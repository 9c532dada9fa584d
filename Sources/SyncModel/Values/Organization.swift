public import Foundation
public import JSONText

/// A tenant.
public struct Organization: Sendable, Hashable {
    /// From the verified token.
    public var id: UUID
    /// For operators, 1 to 200 characters.
    @Exact public var name: String
    public var status: OrganizationStatus
    public var settings: OrganizationSettings
    /// Where mutations of forwarded types are sent.
    ///
    /// Nil when the organization has no upstream.
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

/// Whether an organization is served.
public enum OrganizationStatus: String, Sendable, Hashable, CaseIterable {
    case active
    case suspended
    /// Its data is being deleted; it never comes back.
    case purging
}

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

    /// Which mutations of a lane may run at the same time.
    public var order = LaneOrder.lane
    /// Mutations of a user in flight at the same time, 1 to 32, where the order permits more than one.
    public var maxInFlightPerUser = 8
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

extension OrganizationSettings {
    /// Reads the stored form; absent or unknown values get their defaults.
    public init(stored value: JSONValue) {
        self.init()
        guard let members = value.members else { return }
        for (name, value) in members {
            _ = set(name.string, to: value)
        }
    }

    /// Checks a `settings` object of a request.
    ///
    /// - Returns: the errors, with pointers that start at `pointer`.
    public static func problems(in value: JSONValue, pointer: String) -> [ProblemDetail] {
        guard let members = value.members else {
            return [ProblemDetail(pointer: pointer, rule: Rule.memberType, detail: "settings must be an object")]
        }
        var settings = OrganizationSettings()
        return members.compactMap { name, value in
            // null resets a setting to its default
            if value.isNull, Setting(rawValue: name.string) != nil { return nil }
            return settings.set(name.string, to: value).map { refusal in
                let isUnknown = Setting(rawValue: name.string) == nil
                return ProblemDetail(
                    pointer: pointer + JSONPointer().appending(member: name.string).text,
                    rule: isUnknown ? Rule.unknownMember : Rule.range,
                    detail: refusal
                )
            }
        }
    }

    private enum Setting: String, CaseIterable {
        case provisioning
        case entityTypes = "entity_types"
        case onFailure = "on_failure"
        case onConflict = "on_conflict"
        case conflictResolution = "conflict_resolution"
        case staleAfterDays = "stale_after_days"
        case requestsPerSecond = "requests_per_second"
        case mutationsPerDayPerUser = "mutations_per_day_per_user"
        case order
        case maxInFlightPerUser = "max_in_flight_per_user"
        case userKeys = "user_keys"
    }

    /// Sets one setting; returns why it cannot be set, nil if it can.
    private mutating func set(_ name: String, to value: JSONValue) -> String? {
        switch Setting(rawValue: name) {
        case .provisioning: choose(\.provisioning, value, name)
        case .entityTypes: choose(\.entityTypes, value, name)
        case .onFailure: choose(\.onFailure, value, name)
        case .onConflict: choose(\.onConflict, value, name)
        case .conflictResolution: choose(\.conflictResolution, value, name)
        case .staleAfterDays:
            if let days = value.int64, (1...3_650).contains(days) {
                set(\.staleAfterDays, Int(days))
            } else {
                "stale_after_days must be an integer, 1 to 3650"
            }
        case .requestsPerSecond: limit(\.requestsPerSecond, value, name, 1_000_000)
        case .mutationsPerDayPerUser: limit(\.mutationsPerDayPerUser, value, name, 1_000_000_000)
        case .order: choose(\.order, value, name)
        case .maxInFlightPerUser:
            if let count = value.int64, (1...32).contains(count) {
                set(\.maxInFlightPerUser, Int(count))
            } else {
                "max_in_flight_per_user must be an integer, 1 to 32"
            }
        case .userKeys: if let value = value.bool { set(\.userKeys, value) } else { "user_keys must be true or false" }
        case nil:
            "'\(UnknownMember.shown(name))' is not a setting"
                + UnknownMember.hint(name, known: Setting.allCases.map(\.rawValue))
        }
    }

    private mutating func set<Value>(_ path: WritableKeyPath<Self, Value>, _ value: Value) -> String? {
        self[keyPath: path] = value
        return nil
    }

    private mutating func limit(
        _ path: WritableKeyPath<Self, Int64?>,
        _ value: JSONValue,
        _ name: String,
        _ most: Int64
    ) -> String? {
        guard let number = value.int64, (1...most).contains(number) else {
            return "\(name) must be an integer, 1 to \(most)"
        }
        return set(path, number)
    }

    private mutating func choose<Value: RawRepresentable<String> & CaseIterable>(
        _ path: WritableKeyPath<Self, Value>,
        _ value: JSONValue,
        _ name: String
    ) -> String? {
        guard let choice = value.string.flatMap(Value.init(rawValue:)) else {
            return "\(name) must be one of " + Value.allCases.map(\.rawValue).joined(separator: ", ")
        }
        return set(path, choice)
    }

    /// Writes every setting, defaults included.
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("provisioning", provisioning.rawValue)
        writer.member("entity_types", entityTypes.rawValue)
        writer.member("on_failure", onFailure.rawValue)
        writer.member("on_conflict", onConflict.rawValue)
        writer.member("conflict_resolution", conflictResolution.rawValue)
        writer.member("stale_after_days", Int64(staleAfterDays))
        writer.member("requests_per_second", requestsPerSecond)
        writer.member("mutations_per_day_per_user", mutationsPerDayPerUser)
        writer.member("order", order.rawValue)
        writer.member("max_in_flight_per_user", Int64(maxInFlightPerUser))
        writer.member("user_keys", userKeys)
        writer.endObject()
    }
}
