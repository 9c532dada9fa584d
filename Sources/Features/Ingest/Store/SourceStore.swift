import JSONText
import Logging
import Postgres
package import SyncModel
package import SyncStore

/// The database operations of the workers that fetch from sources.
///
/// Workers of several replicas can use them at the same time. Each lease has a higher token than the leases before it,
/// and a report under an older token changes nothing.
package struct SourceStore: Sendable {
    /// The time after which a lease expires if it is not renewed, in seconds.
    package static let leaseSeconds: Double = 60
    /// The interval at which a worker renews its lease, in seconds.
    package static let renewSeconds: Double = 20
    /// The maximum number of sources that one search returns.
    package static let searchLimit = 500
    /// The maximum length of a stored error, in bytes.
    package static let maximumErrorBytes = 1_000
    /// The longest pause after a failure to decrypt a source's secret, in seconds before jitter.
    static let longestSecretPause: Double = 300

    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure

    init(pool: Pool, catalog: Catalog, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.catalog = catalog
        self.now = now
        self.failure = failure
    }

    // MARK: - Finding

    /// The place from which a search continues.
    package struct Place: Sendable, Hashable {
        let nextRunAt: Timestamp
        let key: SourceKey
    }

    /// Returns sources that are due, the longest waiting first. The search takes no locks.
    ///
    /// - Parameter place: the end of the previous search; nil to start a new search.
    /// - Returns: the due sources, and the place from which the next search continues. The place is nil at the end.
    package func due(_ kind: SourceKind, after place: Place? = nil) async throws(Problem) -> (
        due: [SourceKey], next: Place?
    ) {
        let parameters = Parameters(
            kind.rawValue,
            now(),
            place?.nextRunAt ?? Timestamp(microseconds: 0),
            place?.key.organization ?? .least,
            place?.key.name ?? "",
            Int64(Self.searchLimit)
        )
        do {
            let rows = try await pool.transaction { connection in
                try await connection.runByIndex(Query(SourceStatements.due, parameters))
            }
            let found = try rows.read { row in
                let key = SourceKey(organization: try row.read("organization_id"), name: try row.read("name"))
                return Place(nextRunAt: try row.read("next_run_at"), key: key)
            }
            return (found.map(\.key), found.count < Self.searchLimit ? nil : found.last)
        } catch {
            throw failure.problem(error, doing: "find due sources")
        }
    }

    // MARK: - Working

    /// Claims a source, if it is due and no other worker has it.
    ///
    /// If the source's secret cannot be decrypted, this records a failure of the source.
    ///
    /// - Returns: the lease. It is nil in these cases:
    ///   - The source is not due, or it is disabled, leased or deleted.
    ///   - The organization is not active.
    ///   - A newer gateway wrote the source's settings.
    ///   - The source's secret or the organization's data cannot be decrypted.
    package func claim(_ key: SourceKey, _ kind: SourceKind) async throws(Problem) -> ClaimedSource? {
        // this also excludes organizations whose data cannot be decrypted, because their sources must not appear to
        // work
        guard try await catalog.entry(key.organization).organization?.status == .active else { return nil }
        let moment = now()
        let until = moment.adding(seconds: Self.leaseSeconds)
        do {
            let statement = SourceStatements.claim(
                organization: key.organization,
                name: key.name,
                kind: kind.rawValue,
                now: moment,
                until: until
            )
            guard var row = try await pool.run([statement])[0].first else { return nil }
            guard let found = try Self.claimed(&row, key, kind, until) else { return nil }
            var claim = found.claim
            do {
                claim.secret = try await catalog.opening(key.organization) { seal in
                    try seal.open(text: found.sealed, as: .source(.secret, key.name))
                }
                return claim
            } catch let error as SealError {
                let pause = min(Self.longestSecretPause, Double(1 << min(claim.failureCount, 10)))
                let retryAt = moment.adding(seconds: pause * Double.random(in: 1...1.2))
                let reason = failure.record(unreadableSecretOf: key, error)
                _ = try await finish(claim, .failed(error: reason, retryAt: retryAt))
                return nil
            }
        } catch {
            throw failure.problem(error, doing: "claim a source")
        }
    }

    private static func claimed(
        _ row: inout RowReader,
        _ key: SourceKey,
        _ kind: SourceKind,
        _ until: Timestamp
    ) throws -> (claim: ClaimedSource, sealed: String?)? {
        let settings = SourceSettings(kind, stored: try row.read("settings"))
        let sealed: String? = try row.read("secret")
        let state: [UInt8]? = try row.read("state")
        let token: Int64 = try row.read("lease_token")
        let failureCount: Int32 = try row.read("failure_count")
        let lastSuccessAt: Timestamp? = try row.read("last_success_at")
        let upstreamChangedAt: Timestamp? = try row.read("upstream_changed_at")
        guard let settings else { return nil }
        var claim = ClaimedSource(
            key: key,
            settings: settings,
            secret: nil,
            state: state,
            failureCount: failureCount,
            lastSuccessAt: lastSuccessAt,
            leasedUntil: until,
            token: token
        )
        if kind == .poller { claim.upstreamChangedAt = upstreamChangedAt }
        return (claim, sealed)
    }

    /// Renews the worker's lease. Call it every ``renewSeconds``.
    ///
    /// The worker loses the source if another worker claims the source, or if an operator changes, disables, restarts
    /// or removes it. The worker must then stop its work.
    ///
    /// - Returns: the new end of the lease; nil if the worker lost the source.
    package func renew(_ claim: ClaimedSource) async throws(Problem) -> Timestamp? {
        let until = now().adding(seconds: Self.leaseSeconds)
        let isHeld = try await report(claim, SourceStatements.renew, Self.parameters(claim, until), "renew a lease")
        return isHeld ? until : nil
    }

    /// Returns whether the worker still has the source.
    ///
    /// The result is false once an operator has changed, disabled, restarted or removed the source, has changed the
    /// upstream from which it is polled, or has suspended its organization. The worker must then ingest nothing more.
    /// Workers call this method every few seconds, and before they ingest events.
    package func isHeld(_ claim: ClaimedSource) async throws(Problem) -> Bool {
        try await failure.reporting("check a source's lease") {
            let parameters = Parameters(
                of: claim.key.organization,
                claim.key.name,
                claim.token,
                claim.upstreamChangedAt
            )
            return try await pool.run([Query(SourceStatements.isHeld, parameters)])[0].count > 0
        }
    }

    /// Writes a state and renews the lease, without recording a success. The count of earlier failures stays unchanged.
    ///
    /// - Returns: the new end of the lease. If the worker lost the source, writes nothing and returns nil.
    package func record(_ claim: ClaimedSource, state: [UInt8]) async throws(Problem) -> Timestamp? {
        let until = now().adding(seconds: Self.leaseSeconds)
        var parameters = Self.parameters(claim, until)
        parameters.add(PostgresJSON(state))
        return try await report(claim, SourceStatements.note, parameters, "write a source's state") ? until : nil
    }

    /// Writes the worker's position, and renews the worker's lease.
    ///
    /// Call it only once the events before this position are durable, because a later worker begins at this position.
    ///
    /// - Parameters:
    ///   - state: the position, as a JSON object.
    ///   - hasEvents: whether an event was new.
    /// - Returns: the new end of the lease. If the worker lost the source, or the upstream has changed, writes nothing
    ///   and returns nil.
    package func progress(
        _ claim: ClaimedSource,
        state: [UInt8],
        hasEvents: Bool
    ) async throws(Problem) -> Timestamp? {
        let moment = now()
        let until = moment.adding(seconds: Self.leaseSeconds)
        var parameters = Self.parameters(claim, until)
        parameters.add(PostgresJSON(state))
        parameters.add(hasEvents ? moment : nil)
        parameters.add(moment)
        parameters.add(claim.upstreamChangedAt)
        return try await report(claim, SourceStatements.progress, parameters, "write a source's position") ? until : nil
    }

    /// Releases a source.
    ///
    /// If the upstream has changed since the lease began, the outcome is not written, because it concerns the former
    /// upstream. The source is then due immediately.
    ///
    /// - Returns: true if the source was released; false if the worker had lost the source.
    package func finish(_ claim: ClaimedSource, _ outcome: SourceOutcome) async throws(Problem) -> Bool {
        if try await write(outcome, of: claim) { return true }
        guard claim.upstreamChangedAt != nil else { return false }
        return try await write(.released(nextRunAt: now()), of: claim)
    }

    private func write(_ outcome: SourceOutcome, of claim: ClaimedSource) async throws(Problem) -> Bool {
        let moment = now()
        switch outcome {
        case .succeeded(let state, let hasEvents, let nextRunAt, let warning):
            var parameters = Self.parameters(claim, nextRunAt)
            parameters.add(PostgresJSON(state))
            parameters.add(hasEvents ? moment : nil)
            parameters.add(moment)
            parameters.add(warning.map(Self.bounded))
            parameters.add(claim.upstreamChangedAt)
            return try await report(claim, SourceStatements.succeed, parameters, "write the outcome of a source's run")
        case .failed(let error, let retryAt, let state):
            var parameters = Self.parameters(claim, retryAt)
            parameters.add(Self.bounded(error))
            parameters.add(moment)
            parameters.add(PostgresJSON(state))
            parameters.add(claim.upstreamChangedAt)
            return try await report(claim, SourceStatements.fail, parameters, "write the failure of a source")
        case .released(let nextRunAt):
            let parameters = Self.parameters(claim, nextRunAt)
            return try await report(claim, SourceStatements.release, parameters, "release a source")
        }
    }

    private static func parameters(_ claim: ClaimedSource, _ moment: Timestamp) -> Parameters {
        Parameters(of: claim.key.organization, claim.key.name, claim.token, moment)
    }

    private func report(
        _ claim: ClaimedSource,
        _ statement: Statement,
        _ parameters: Parameters,
        _ what: StaticString
    ) async throws(Problem) -> Bool {
        try await failure.reporting(what) {
            try await pool.run([Query(statement, parameters)])[0].affected > 0
        }
    }

    /// Returns an error without control characters, cut to ``maximumErrorBytes``. Errors are stored and shown in this
    /// form.
    package static func bounded(_ error: String) -> String {
        var bounded = ""
        var bytes = 0
        for character in error {
            let isControl = character.unicodeScalars.contains { $0.value < 0x20 || (0x7f...0x9f).contains($0.value) }
            let next = isControl ? " " : character
            bytes += next.utf8.count
            guard bytes <= maximumErrorBytes - 3 else { return bounded + "…" }
            bounded.append(next)
        }
        return bounded
    }

    // MARK: - Examining

    /// A source that follows a database's log.
    package struct Followed: Sendable {
        package let key: SourceKey
        package let settings: ReplicationSettings
        /// The database's URI, decrypted; nil if it cannot be decrypted.
        package let secret: String?
        /// The reason why changes are missing in the log; nil if no changes are missing.
        ///
        /// The source stops for this reason, until an operator runs it from the beginning.
        @Exact package private(set) var gap: String?
    }

    /// Returns the enabled sources of kind `postgres` of all active organizations.
    package func followed(limit: Int) async throws(Problem) -> [Followed] {
        do {
            var found: [Followed] = []
            for var row in try await pool.run([SourceStatements.followed(limit: limit)])[0] {
                let key = SourceKey(organization: try row.read("organization_id"), name: try row.read("name"))
                let settings = SourceSettings(.postgres, stored: try row.read("settings"))
                let sealed: String? = try row.read("secret")
                let state = try row.read("state", as: [UInt8]?.self).flatMap { ReplicationState($0) }
                guard case .postgres(let settings)? = settings else { continue }
                let secret = try? await catalog.opening(key.organization) { seal in
                    try seal.open(text: sealed, as: .source(.secret, key.name))
                }
                found.append(Followed(key: key, settings: settings, secret: secret, gap: state?.gap))
            }
            return found
        } catch {
            throw failure.problem(error, doing: "list sources")
        }
    }

    // MARK: - Metrics

    /// Statistics about the sources of one kind in all active organizations.
    package struct Stats: Sendable, Hashable {
        package var ok = 0
        /// The number of enabled sources whose last attempt failed.
        package var failing = 0
        package var disabled = 0
        /// The earliest time among the last successes of the enabled sources. For a source that never succeeded, the
        /// time of its creation is used.
        package var oldestSuccess: Timestamp?

        package init() {}
    }

    package func stats() async throws(Problem) -> [SourceKind: Stats] {
        do {
            var found: [SourceKind: Stats] = [:]
            for var row in try await pool.run([Query(SourceStatements.stats)])[0] {
                let kind: SourceKind = try row.choice("kind")
                var stats = Stats()
                stats.ok = try row.read("ok")
                stats.failing = try row.read("failing")
                stats.disabled = try row.read("disabled")
                stats.oldestSuccess = try row.read("oldest_success")
                found[kind] = stats
            }
            return found
        } catch {
            throw failure.problem(error, doing: "count sources")
        }
    }
}

extension StoreFailure {
    /// Logs that a source's secret cannot be decrypted.
    ///
    /// - Returns: the error text to be stored for the source.
    func record(unreadableSecretOf key: SourceKey, _ error: SealError) -> String {
        logger.warning(
            "A source's secret cannot be decrypted",
            metadata: [
                "organization": "\(key.organization.lowercased)", "source": "\(key.name)", "reason": "\(error)",
            ]
        )
        return "The source's secret cannot be decrypted: \(error)"
    }
}

extension Store {
    /// Verifies service tokens.
    package var serviceTokens: ServiceTokens {
        shared { ServiceTokens(pool: pool, cluster: cluster, now: now, failure: failure) }
    }

    /// The sources from which workers fetch.
    package var sources: SourceStore { SourceStore(pool: pool, catalog: catalog, now: now, failure: failure) }

    /// Sources that receive webhooks.
    package var receivers: SourceReceivers {
        shared { SourceReceivers(pool: pool, cluster: cluster, catalog: catalog, now: now, failure: failure) }
    }

    /// Manages organizations' sources.
    package var sourceAdministration: SourceAdministration {
        SourceAdministration(pool: pool, catalog: catalog, receivers: receivers, now: now, failure: failure)
    }
}
