import Postgres
package import SyncModel
package import SyncStore

/// A source as operators see it: without its secrets.
package struct SourceRow: Sendable {
    /// Its present activity.
    package enum Activity: String, Sendable, Hashable, CaseIterable {
        /// Accepts messages.
        case receiving
        /// A gateway fetches its data.
        case running
        /// A gateway is about to.
        case waiting
        /// The last attempt failed: a gateway tries again after a pause.
        case retrying
        case disabled
    }

    package let name: String
    package let kind: SourceKind
    package let isEnabled: Bool
    /// JSON, as it was validated.
    package let settings: [UInt8]
    package let hasSecret: Bool
    /// Until when the secret before the newest also verifies; nil if there is no such secret.
    package let previousSecretUntil: Timestamp?
    /// How far workers are: a JSON object.
    package let state: [UInt8]?
    package let nextRunAt: Timestamp?
    package let isLeased: Bool
    package let failureCount: Int32
    package let failingSince: Timestamp?
    package let lastError: String?
    package let lastSuccessAt: Timestamp?
    package let lastEventAt: Timestamp?
    package let createdAt: Timestamp
    package let updatedAt: Timestamp

    package var activity: Activity {
        if !isEnabled { return .disabled }
        if !kind.isWorkedOn { return .receiving }
        if isLeased { return .running }
        return failureCount > 0 ? .retrying : .waiting
    }

    /// The columns that it is read from, for a table that is called `s`.
    ///
    /// - Parameter now: the parameter with the moment.
    static func list(now: String) -> String {
        """
        s.name, s.kind, s.status, s.settings, s.secret IS NOT NULL AS has_secret, s.previous_until, s.state,
            s.next_run_at, coalesce(s.leased_until > \(now), false) AS is_leased, s.failure_count, s.failing_since,
            s.last_error, s.last_success_at, s.last_event_at, s.created_at, s.updated_at
        """
    }

    init(_ row: inout RowReader) throws {
        name = try row.read("name")
        kind = try row.choice("kind")
        isEnabled = try row.read("status", as: String.self) == "enabled"
        settings = try row.read("settings")
        hasSecret = try row.read("has_secret")
        previousSecretUntil = try row.read("previous_until")
        state = try row.read("state")
        let nextRunAt: Timestamp? = try row.read("next_run_at")
        isLeased = try row.read("is_leased")
        // while it is leased, that is the lease's end
        self.nextRunAt = isLeased || !isEnabled ? nil : nextRunAt
        failureCount = try row.read("failure_count")
        failingSince = try row.read("failing_since")
        lastError = try row.read("last_error")
        lastSuccessAt = try row.read("last_success_at")
        lastEventAt = try row.read("last_event_at")
        createdAt = try row.read("created_at")
        updatedAt = try row.read("updated_at")
    }
}

extension SourceKey: WorkItem {}

/// A worker's hold on a source.
package struct ClaimedSource: Sendable {
    package let key: SourceKey
    package let settings: SourceSettings
    /// Decrypted.
    package internal(set) var secret: String?
    /// How far workers are, as the last of them wrote it: a JSON object.
    ///
    /// Nil: nothing was read yet, or all is to be read again.
    package let state: [UInt8]?
    /// What failed in a row before.
    package let failureCount: Int32
    package let lastSuccessAt: Timestamp?
    package let leasedUntil: Timestamp
    let token: Int64

    /// Who brings its events, for ``IngestCommit/submit(_:from:)``.
    package var bearer: IngestBearer { IngestBearer(key) }
}

/// The result of a worker's lease of a source.
package enum SourceOutcome: Sendable, Hashable {
    /// - Parameters:
    ///   - state: how far it is; nil: as it was.
    ///   - hasEvents: whether there was something new.
    ///   - warning: what an operator should know all the same; shown where errors are.
    case succeeded(state: [UInt8]?, hasEvents: Bool, nextRunAt: Timestamp, warning: String? = nil)
    /// - Parameters:
    ///   - error: why, in a sentence, with nothing secret in it.
    ///   - state: where workers continue; nil: unchanged.
    case failed(error: String, retryAt: Timestamp, state: [UInt8]? = nil)
    /// Ended without success or failure, for example because the gateway stops.
    case released(nextRunAt: Timestamp)
}

extension IngestBearer {
    /// A configured source: it has no token whose use were to be noted.
    package init(_ key: SourceKey) {
        self.init(organization: key.organization, tokenID: .least, source: key.name, isFirstUse: false)
    }
}
