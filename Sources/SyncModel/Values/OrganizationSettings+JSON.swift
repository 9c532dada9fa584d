public import JSONText

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
        writer.member("user_keys", userKeys)
        writer.endObject()
    }
}
