import DequeModule
import FoundationEssentials
import Postgres
import SyncModel
import Synchronization

/// Reads organizations for the catalog. Concurrent requests share one round trip.
///
/// With thousands of organizations, most small pushes need this read, because their organization's entry has expired.
final class CatalogReader: Sendable {
    /// The rows of one organization. The caller decodes them, so that a row that cannot be decoded is an error of its
    /// organization only.
    struct Found: Sendable {
        var organization: RowReader?
        /// The partition and shard of the organization's rows; nil if tables are neither partitioned nor distributed.
        var place: Placement?
        /// Whether the organization accepts events.
        var hasSources = false
        /// The time at which the organization was created; nil if it does not exist.
        var createdAt: Timestamp?
        var types: [RowReader] = []
        var upstream: RowReader?
        var keys: [RowReader] = []
        var joins: [RowReader] = []
        var erasures: [RowReader] = []
    }

    private typealias Waiter = CheckedContinuation<Result<Found, any Error>, Never>

    private struct State {
        var waiters: [UUID: [Waiter]] = [:]
        var isReading = false
        /// For each organization that is read separately: the callers that wait for its next read.
        var aside: [UUID: [Waiter]] = [:]
        /// The partition and shard of each organization.
        ///
        /// The partition is searched for once, because it never changes, and the search costs more than the rest of the
        /// read. The shard is cheap to find, and changes if an operator isolates the organization.
        var places: [UUID: Placement] = [:]
        /// Organizations with many types. They are read separately, so that other organizations do not wait for them.
        var large: Set<UUID> = []

        /// Limits the memory, however many organizations are requested.
        mutating func evict() {
            if places.count >= Catalog.capacity { (places, large) = ([:], []) }
        }
    }

    /// The maximum number of organizations in one round trip.
    private static let limit = 32
    /// The number of entity types above which an organization is large.
    private static let fewTypes = 200

    private let pool: Pool
    private let cluster: Cluster
    private let now: TimeSource
    private let state = Mutex(State())

    init(pool: Pool, cluster: Cluster, now: @escaping TimeSource) {
        self.pool = pool
        self.cluster = cluster
        self.now = now
    }

    /// Reads an organization. The rows are at least as new as the call.
    ///
    /// - Throws: `unavailable` immediately if the organization's server does not respond. If such requests waited, they
    ///   would occupy the shared connections.
    func read(_ id: UUID) async throws -> Found {
        if !cluster.servers.silent.isEmpty, let shard = try await shard(of: id), cluster.servers.isSilent(shard) {
            throw PostgresError(.unavailable, "the server that stores the organization does not respond")
        }
        return try await withCheckedContinuation { waiter in
            let (mustBegin, isLarge) = state.withLock { state in
                // in a Citus cluster, the rows of each organization can be on another server
                if cluster.isThere || state.large.contains(id) {
                    defer { state.aside[id, default: []].append(waiter) }
                    return (state.aside[id] == nil, true)
                }
                state.waiters[id, default: []].append(waiter)
                defer { state.isReading = true }
                return (!state.isReading, false)
            }
            if mustBegin { Task { await isLarge ? readSeparately(id) : readAll() } }
        }.get()
    }

    /// Returns the shard that contains an organization, or would contain it if it existed. Any server can compute the
    /// shard.
    private func shard(of id: UUID) async throws -> Int? {
        if let place = state.withLock({ $0.places[id] }) { return place.shard }
        let rows = try await pool.run([Query(Self.shard, Parameters([id]))])[0]
        guard var row = rows.first else { return nil }
        let shard: Int = try row.read("shard")
        state.withLock { state in
            state.evict()
            state.places[id] = .shard(shard)
        }
        return shard
    }

    private func readAll() async {
        while true {
            let batch = state.withLock { state -> [UUID: [Waiter]] in
                var batch: [UUID: [Waiter]] = [:]
                while batch.count < Self.limit, let (id, waiters) = state.waiters.popFirst() { batch[id] = waiters }
                if batch.isEmpty { state.isReading = false }
                return batch
            }
            if batch.isEmpty { return }
            do {
                let found = try await read(Array(batch.keys))
                for (id, waiters) in batch { answer(waiters, .success(found[id] ?? Found())) }
            } catch let error as PostgresError where batch.count > 1 && (error.isTooLong || cluster.isThere) {
                await readSingly(batch)
            } catch {
                for waiters in batch.values { answer(waiters, .failure(error)) }
            }
        }
    }

    private func readSeparately(_ id: UUID) async {
        while true {
            let waiters = state.withLock { state in
                defer { state.aside[id] = state.aside[id]?.isEmpty == false ? [] : nil }
                return state.aside[id] ?? []
            }
            if waiters.isEmpty { return }
            await read(id, for: waiters)
        }
    }

    /// Reads each organization of a batch separately, to find the organization whose read takes too long.
    private func readSingly(_ batch: [UUID: [Waiter]]) async {
        for (id, waiters) in batch { await read(id, for: waiters) }
    }

    private func read(_ id: UUID, for waiters: [Waiter]) async {
        do {
            answer(waiters, .success(try await read([id])[id] ?? Found()))
        } catch {
            if (error as? PostgresError)?.isTooLong == true { state.withLock { _ = $0.large.insert(id) } }
            answer(waiters, .failure(error))
        }
    }

    private func answer(_ waiters: [Waiter], _ result: Result<Found, any Error>) {
        for waiter in waiters { waiter.resume(returning: result) }
    }

    private func read(_ ids: [UUID]) async throws -> [UUID: Found] {
        let known = state.withLock { state in ids.map { cluster.isThere ? nil : state.places[$0] } }
        let parameters = Parameters(ids)
        let results = try await pool.readByIndex([
            Self.organizations(organizations: ids, are_new: known.map { $0 == nil }),
            Query(Self.types, parameters), Query(Self.upstreams, parameters),
            OrganizationKeys.read(ids), Query(UserJoins.statement, parameters),
            ErasedUsers.statement(organizations: ids, since: now().adding(seconds: -ErasedUsers.memory)),
        ])
        var found: [UUID: Found] = [:]
        for var row in results[0] {
            let id: UUID = try row.read("organization_id")
            let number = try row.read("place", as: Int32?.self).map(Int.init)
            let place = number.map { cluster.isThere ? Placement.shard($0) : .partition($0) }
            let hasSources: Bool = try row.read("has_sources")
            let createdAt: Timestamp = try row.read("created_at")
            found[id] = Found(organization: row, place: place, hasSources: hasSources, createdAt: createdAt)
        }
        for (id, place) in zip(ids, known) where place != nil { found[id]?.place = place }
        for var row in results[1] {
            found[try row.read("organization_id"), default: Found()].types.append(row)
        }
        for var row in results[2] {
            found[try row.read("organization_id"), default: Found()].upstream = row
        }
        for var row in results[3] {
            found[try row.read("organization_id"), default: Found()].keys.append(row)
        }
        for var row in results[4] {
            found[try row.read("organization_id"), default: Found()].joins.append(row)
        }
        for var row in results[5] {
            found[try row.read("organization_id"), default: Found()].erasures.append(row)
        }
        record(found)
        return found
    }

    private func record(_ found: [UUID: Found]) {
        state.withLock { state in
            state.evict()
            for (id, one) in found {
                state.places[id] = one.place
                if one.types.count > Self.fewTypes { state.large.insert(id) }
            }
        }
    }

    private static let shard = Statement(
        "cluster_shard",
        ["organizations"],
        "SELECT get_shard_id_for_distribution_column('organizations', k.id)::int8 AS shard FROM unnest(:organizations::uuid[]) AS k (id)"
    )

    private static let organizations = Statement(
        "catalog_organizations",
        ["organizations", "are_new"],
        organizations(
            place: """
                (
                            SELECT n FROM (
                                SELECT count(*)::int FROM pg_inherits WHERE inhparent = 'lanes'::regclass) p (count),
                                LATERAL generate_series(0, p.count - 1) n
                            WHERE satisfies_hash_partition('lanes'::regclass, p.count, n, o.id))
                """
        ),
        variant: organizations(place: "get_shard_id_for_distribution_column('organizations', o.id)::int")
    )

    private static func organizations(place: String) -> String {
        """
        SELECT o.id AS organization_id, CASE WHEN k.is_new THEN \(place) END AS place,
            EXISTS (SELECT FROM service_tokens t WHERE t.organization_id = o.id AND t.revoked_at IS NULL)
                OR EXISTS (SELECT FROM sources s WHERE s.organization_id = o.id AND s.status = 'enabled') AS has_sources,
            o.created_at, o.name, o.status, o.settings
        FROM unnest(:organizations::uuid[], :are_new::bool[]) AS k (organization_id, is_new)
        CROSS JOIN LATERAL (SELECT * FROM organizations x WHERE x.id = k.organization_id OFFSET 0) o
        """
    }

    private static let types = Statement(
        "catalog_entity_types",
        ["organizations"],
        """
        SELECT t.organization_id, \(EntityTypeRow.list)
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (SELECT * FROM entity_types x WHERE x.organization_id = k.organization_id OFFSET 0) t
        """
    )

    private static let upstreams = Statement(
        "catalog_upstreams",
        ["organizations"],
        """
        SELECT u.organization_id, \(UpstreamSettingsRow.list)
        FROM unnest(:organizations::uuid[]) AS k (organization_id)
        CROSS JOIN LATERAL (SELECT * FROM upstreams x WHERE x.organization_id = k.organization_id OFFSET 0) u
        """
    )

    static let statements = [organizations, types, upstreams, UserJoins.statement, ErasedUsers.statement]
}

// MARK: - GatheredLookup

/// Looks up rows by key for many concurrent callers.
///
/// Keys that are requested during a look-up are collected, and the next look-up finds all of them. Therefore only one
/// statement runs at a time, even if many requests have invented keys. These requests delay neither the database nor a
/// caller with a valid key.
///
/// The number of waiting callers needs no limit, because each caller has its own connection, and connections are
/// limited.
package final class GatheredLookup<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private typealias Waiter = CheckedContinuation<Result<Value?, any Error>, Never>

    private struct State {
        package var waiters: [Key: [Waiter]] = [:]
        /// The keys of `waiters`, in the order of their first request.
        package var keys: Deque<Key> = []
        package var isLooking = false
    }

    private let limit: Int
    private let fetch: @Sendable (_ keys: [Key]) async throws -> [Key: Value]
    private let state = Mutex(State())

    /// - Parameters:
    ///   - limit: the maximum number of keys in one look-up.
    ///   - fetch: returns the values of distinct keys. The result has no entry for a key without a value.
    package init(limit: Int = 256, _ fetch: @escaping @Sendable (_ keys: [Key]) async throws -> [Key: Value]) {
        self.limit = limit
        self.fetch = fetch
    }

    /// Returns the value of a key, which is at least as new as the call.
    ///
    /// - Throws: the error of the look-up for this key.
    package func find(_ key: Key) async throws -> Value? {
        try await withCheckedContinuation { waiter in
            let mustBegin = state.withLock { state in
                if state.waiters[key] == nil { state.keys.append(key) }
                state.waiters[key, default: []].append(waiter)
                defer { state.isLooking = true }
                return !state.isLooking
            }
            if mustBegin { Task { await fetchAll() } }
        }.get()
    }

    private func fetchAll() async {
        while let batch = nextBatch() {
            let found: Result<[Key: Value], any Error>
            do {
                found = .success(try await fetch(Array(batch.keys)))
            } catch {
                found = .failure(error)
            }
            for (key, waiters) in batch {
                for waiter in waiters { waiter.resume(returning: found.map { $0[key] }) }
            }
        }
    }

    /// Returns the next keys; nil once no caller waits.
    private func nextBatch() -> [Key: [Waiter]]? {
        state.withLock { state in
            var batch: [Key: [Waiter]] = [:]
            while batch.count < limit, let key = state.keys.popFirst() {
                batch[key] = state.waiters.removeValue(forKey: key)
            }
            state.isLooking = !batch.isEmpty
            return batch.isEmpty ? nil : batch
        }
    }
}
