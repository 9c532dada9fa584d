import Postgres
package import SyncModel
package import SyncStore

/// A source without its secrets, as operators see it.
package struct SourceRow: Sendable {
    /// The present activity of the source.
    package enum Activity: String, Sendable, Hashable, CaseIterable {
        /// The source accepts webhook messages.
        case receiving
        /// A gateway is fetching the source's data.
        case running
        /// The source waits until a gateway fetches its data.
        case waiting
        /// The last attempt failed. A gateway retries after a pause.
        case retrying
        case disabled
    }

    package let name: String
    package let kind: SourceKind
    package let isEnabled: Bool
    /// The validated settings, as JSON.
    package let settings: [UInt8]
    package let hasSecret: Bool
    /// The time until which the previous secret is also accepted; nil if there is no such secret.
    package let previousSecretUntil: Timestamp?
    /// The position that workers have reached: a JSON object.
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

    /// Returns the columns of a row, for a table with the alias `s`.
    ///
    /// - Parameter now: the name of the parameter that contains the present time.
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
        // while the source is leased, the column contains the end of the lease instead of the next run
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

/// A source that a worker has leased.
package struct ClaimedSource: Sendable {
    package let key: SourceKey
    package let settings: SourceSettings
    /// The decrypted secret.
    package internal(set) var secret: String?
    /// The position that workers have reached, as the last worker wrote it: a JSON object.
    ///
    /// It is nil if nothing was read yet, or if all data must be read again.
    package let state: [UInt8]?
    /// The number of consecutive failures so far.
    package let failureCount: Int32
    package let lastSuccessAt: Timestamp?
    package let leasedUntil: Timestamp
    /// The time of the upstream's last change before the lease; nil without an upstream, and for a source that uses no
    /// upstream. If the upstream changes during the lease, data from the former upstream are not applied.
    package internal(set) var upstreamChangedAt: Timestamp?
    let token: Int64

    /// The source, as the authenticated sender of its events, for ``IngestCommit/submit(_:from:)``.
    package var bearer: IngestBearer { IngestBearer(key) }
}

/// The result of a worker's lease.
package enum SourceOutcome: Sendable, Hashable {
    /// The worker reached a position.
    ///
    /// - Parameters:
    ///   - state: the position; nil if it is unchanged.
    ///   - hasEvents: whether an event was new.
    ///   - warning: a condition that an operator should see despite the success. It is shown in place of an error.
    case succeeded(state: [UInt8]?, hasEvents: Bool, nextRunAt: Timestamp, warning: String? = nil)
    /// The worker failed.
    ///
    /// - Parameters:
    ///   - error: the reason, as a sentence without a secret.
    ///   - state: the position from which workers continue; nil if it is unchanged.
    case failed(error: String, retryAt: Timestamp, state: [UInt8]? = nil)
    /// The lease ended without success or failure, for example because the gateway is stopping.
    case released(nextRunAt: Timestamp)
}

extension IngestBearer {
    /// Creates the sender for a configured source. It has no service token, so no use of a token is recorded.
    package init(_ key: SourceKey) {
        self.init(organization: key.organization, tokenID: .least, source: key.name, isFirstUse: false)
    }
}
