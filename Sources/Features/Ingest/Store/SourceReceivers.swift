import Postgres
package import SyncModel
package import SyncStore
import Synchronization

/// The sources that receive webhooks. Cached entries are at most five seconds old.
package final class SourceReceivers: Sendable {
    /// The maximum number of cached names, including names that no source has.
    static let capacity = 20_000
    /// The shortest time in seconds between two records of a source whose state does not change.
    static let noteSeconds: Double = 60

    /// A source that receives webhooks.
    package struct Receiver: Sendable {
        package let key: SourceKey
        package let isEnabled: Bool
        package let settings: ReceiverSettings
        /// The decrypted secrets that are valid at present.
        package let secrets: [String]
        fileprivate let failingSince: Timestamp?
        fileprivate let lastSuccessAt: Timestamp?

        /// The source, as the authenticated sender of its events.
        package var bearer: IngestBearer { IngestBearer(key) }
    }

    private struct Known {
        /// The source; nil if no source has the name.
        let found: Found?
        let readAt: Timestamp
    }

    private struct Found {
        let receiver: Receiver
        let previousUntil: Timestamp?
    }

    private struct State {
        var sources = GenerationCache<SourceKey, Known>(capacity: capacity)
        /// For each source, the time at which a failure was last recorded.
        var failures = GenerationCache<SourceKey, Timestamp>(capacity: capacity)
    }

    private let pool: Pool
    private let catalog: Catalog
    private let now: TimeSource
    private let failure: StoreFailure
    private let lookup: GatheredLookup<SourceKey, RowReader>
    private let state = Mutex(State())

    init(pool: Pool, cluster: Cluster, catalog: Catalog, now: @escaping TimeSource, failure: StoreFailure) {
        lookup = GatheredLookup { keys in
            var found: [SourceKey: RowReader] = [:]
            for part in cluster.parts(keys, by: \.organization) {
                let query = Self.findStatement(organizations: part.map(\.organization), names: part.map(\.name))
                for var row in try await pool.runByIndex(query) {
                    let key = SourceKey(organization: try row.read("organization_id"), name: try row.read("name"))
                    found[key] = row
                }
            }
            return found
        }
        self.pool = pool
        self.catalog = catalog
        self.now = now
        self.failure = failure
    }

    /// Removes a source from the cache. Call it after this gateway changed the source.
    package func invalidate(_ key: SourceKey) {
        state.withLock { $0.sources.remove(key) }
    }

    /// Returns a source that receives webhooks; nil if no such source has the name.
    ///
    /// If the source's secrets cannot be decrypted, this records a failure of the source, at most once a minute.
    ///
    /// - Throws: `store_unavailable`.
    package func receiver(_ key: SourceKey) async throws(Problem) -> Receiver? {
        let moment = now()
        let old = state.withLock { $0.sources.find(key) }
        if let old, old.readAt <= moment, moment.microseconds - old.readAt.microseconds < Catalog.lifetime,
            old.found?.previousUntil.map({ $0 > moment }) ?? true
        {
            return old.found?.receiver
        }
        let found: Found?
        do {
            found = try await read(key, at: moment)
        } catch let error as SealError {
            if isUnrecorded(key, at: moment) { await fail(key, failure.record(unreadableSecretOf: key, error)) }
            throw failure.problem(error, doing: "decrypt a source's secret")
        } catch {
            throw failure.problem(error, doing: "look up a source")
        }
        state.withLock { $0.sources.insert(Known(found: found, readAt: moment), for: key) }
        return found?.receiver
    }

    private func read(_ key: SourceKey, at moment: Timestamp) async throws -> Found? {
        // the source is looked up before any key is read, so that a request with an invented name reads no key
        guard let row = try await lookup.find(key) else { return nil }
        return try await catalog.opening(key.organization) { seal in
            var row = row
            let isEnabled = try row.read("status", as: String.self) == "enabled"
            let settings: [UInt8] = try row.read("settings")
            let secret = try seal.open(text: row.read("secret"), as: .source(.secret, key.name))
            let sealedPrevious: String? = try row.read("previous_secret")
            let previousUntil = try row.read("previous_until", as: Timestamp?.self).flatMap { $0 > moment ? $0 : nil }
            let failingSince: Timestamp? = try row.read("failing_since")
            let lastSuccessAt: Timestamp? = try row.read("last_success_at")
            guard case .webhook(let receiver)? = SourceSettings(.webhook, stored: settings) else { return nil }
            let previous = try seal.open(
                text: previousUntil == nil ? nil : sealedPrevious,
                as: .source(.previousSecret, key.name)
            )
            return Found(
                receiver: Receiver(
                    key: key,
                    isEnabled: isEnabled,
                    settings: receiver,
                    secrets: [secret, previous].compactMap(\.self),
                    failingSince: failingSince,
                    lastSuccessAt: lastSuccessAt
                ),
                previousUntil: previousUntil
            )
        }
    }

    // MARK: - Results of messages

    /// Records that a message was accepted. While a source works, at most one success a minute is recorded.
    ///
    /// If the record cannot be written, the message is still accepted.
    package func succeeded(_ receiver: Receiver) async {
        let moment = now()
        let isChange =
            receiver.failingSince != nil
            || receiver.lastSuccessAt.map { $0.adding(seconds: Self.noteSeconds) <= moment } ?? true
        guard isChange else { return }
        await record(
            receiver.key,
            Self.succeedStatement(organization: receiver.key.organization, name: receiver.key.name, now: moment)
        )
    }

    /// Records that a message was refused. While a source fails, at most one failure a minute is recorded.
    ///
    /// - Parameter error: the reason, without a secret.
    package func failed(_ receiver: Receiver, _ error: String) async {
        guard isUnrecorded(receiver.key, at: now(), isNew: receiver.failingSince == nil) else { return }
        await fail(receiver.key, error)
    }

    /// Whether to record a failure of a source: true if the source worked before, or if the last record is a minute
    /// old.
    private func isUnrecorded(_ key: SourceKey, at moment: Timestamp, isNew: Bool = false) -> Bool {
        state.withLock { state in
            if !isNew, let last = state.failures.find(key), last.adding(seconds: Self.noteSeconds) > moment {
                return false
            }
            state.failures.insert(moment, for: key)
            return true
        }
    }

    private func fail(_ key: SourceKey, _ error: String) async {
        let (organization, bounded) = (key.organization, SourceStore.bounded(error))
        await record(key, Self.failStatement(organization: organization, name: key.name, now: now(), error: bounded))
    }

    private func record(_ key: SourceKey, _ query: Query) async {
        do {
            _ = try await pool.run([query])
            invalidate(key)
        } catch {
            _ = failure.problem(error, doing: "record the outcome of a message")
        }
    }

    private static let findStatement = Statement(
        "source_receivers_find",
        ["organizations", "names"],
        """
        SELECT s.organization_id, s.name, s.status, s.settings, s.secret, s.previous_secret, s.previous_until,
            s.failing_since, s.last_success_at
        FROM unnest(:organizations::uuid[], :names::text[]) AS k (organization_id, name)
        CROSS JOIN LATERAL (
            SELECT * FROM sources x WHERE x.organization_id = k.organization_id AND x.name = k.name OFFSET 0
        ) s
        WHERE s.kind = 'webhook'
        """
    )

    private static let succeedStatement = Statement(
        "source_receivers_succeed",
        ["organization", "name", "now"],
        """
        UPDATE sources AS s
        SET last_success_at = :now, last_event_at = :now, failure_count = 0, failing_since = NULL, last_error = NULL
        WHERE s.organization_id = :organization AND s.name = :name AND s.kind = 'webhook'
        """
    )

    private static let failStatement = Statement(
        "source_receivers_fail",
        ["organization", "name", "now", "error"],
        """
        UPDATE sources AS s
        SET failure_count = least(s.failure_count, 1000000) + 1, failing_since = coalesce(s.failing_since, :now),
            last_error = :error
        WHERE s.organization_id = :organization AND s.name = :name AND s.kind = 'webhook'
        """
    )

    static let statements = [findStatement, succeedStatement, failStatement]
}
