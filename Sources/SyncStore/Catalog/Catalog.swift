public import Foundation
import JSONText
import Postgres
public import SyncModel
import Synchronization

/// Organizations and their entity types as every request needs them: read from the database once in a while and kept
/// for five seconds, so that an operator's change is in force everywhere by then and here at once.
///
/// What is cached is never what safety rests on: an id space is fixed once a type is in use, a push marks a type as in
/// use in its own transaction, and a purged organization takes no new lanes.
public final class Catalog: Sendable {
    /// How long an answer is good for, in microseconds.
    static let lifetime: Int64 = 5_000_000
    /// Organizations kept at most; beyond it the cache starts over.
    static let capacity = 20_000

    /// An organization and its types at one moment.
    struct Entry: Sendable {
        /// Nil when there is no such organization: remembered too, so that a stranger's token costs no query each time.
        var organization: Organization?
        var types: [String: EntityType]
        /// The number of the partition that holds its rows: pushes of one partition are best committed together.
        var partition: Int
        /// Seals and opens what is stored of it.
        var seal: Seal
        var readAt: Timestamp
    }

    private struct UserKey: Hashable {
        let organization: UUID
        let user: UUID
    }

    private struct State {
        var entries: [UUID: Entry] = [:]
        var users: [UserKey: Timestamp] = [:]
        /// Raised by every invalidation: a read that began before one is not kept.
        var generation = 0
    }

    private let pool: Pool
    /// Nil where nothing is sealed.
    private let masterKeys: MasterKeys?
    private let now: TimeSource
    private let failure: StoreFailure
    private let state = Mutex(State())

    init(pool: Pool, masterKeys: MasterKeys?, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.masterKeys = masterKeys
        self.now = now
        self.failure = failure
    }

    /// An organization, at most five seconds old; nil when there is none.
    ///
    /// - Throws: `store_unavailable` when it is not cached and the database is away, and while its data are sealed and
    ///   cannot be opened here.
    public func organization(_ id: UUID) async throws(Problem) -> Organization? {
        let entry = try await entry(id)
        if entry.seal.lock != nil { throw StoreFailure.sealed }
        return entry.organization
    }

    /// Whether a user has pushed before or was let in by an operator.
    public func isUserKnown(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool {
        let key = UserKey(organization: organization, user: user)
        let moment = now()
        let (isKnown, generation) = state.withLock { state in
            (state.users[key].map { Self.isFresh($0, at: moment) } ?? false, state.generation)
        }
        if isKnown { return true }
        var parameters = Parameters()
        parameters.add(organization)
        parameters.add(user)
        let found: Bool
        do {
            found = try await pool.run([Query(Self.userStatement, parameters)])[0].count > 0
        } catch {
            throw failure.problem(error, doing: "look up a user")
        }
        if found {
            state.withLock { state in
                guard state.generation == generation else { return }
                if state.users.count >= Self.capacity { state.users.removeAll() }
                state.users[key] = moment
            }
        }
        return found
    }

    /// The entry of an organization, at most five seconds old.
    func entry(_ id: UUID) async throws(Problem) -> Entry {
        let moment = now()
        let (cached, generation) = state.withLock { ($0.entries[id], $0.generation) }
        if let cached, Self.isFresh(cached.readAt, at: moment) { return cached }
        var parameters = Parameters()
        parameters.add(id)
        let read: Entry
        do {
            let rows = try await pool.run([
                Query(Self.organizationStatement, parameters), Query(Self.typesStatement, parameters),
                Query(Self.upstreamStatement, parameters), OrganizationKeys.read(id),
            ])
            let keys = try await seal(of: id, rows[3], rows[0])
            let (organization, seal) = try organization(rows[0], upstream: rows[2], keys)
            if let reason = seal.lock { failure.note(locked: id, reason) }
            read = Entry(
                organization: organization,
                types: try Self.types(rows[1]),
                partition: try Self.partition(rows[0], of: id),
                seal: seal,
                readAt: moment
            )
        } catch {
            throw failure.problem(error, doing: "read an organization")
        }
        state.withLock { state in
            guard state.generation == generation else { return }
            if state.entries.count >= Self.capacity { state.entries.removeAll() }
            state.entries[id] = read
        }
        return read
    }

    /// Unwraps an organization's keys; makes the first where there is none and there is a master key to wrap it.
    private func seal(of id: UUID, _ keys: Rows, _ organization: Rows) async throws -> Seal {
        var wrapped = try OrganizationKeys.keys(keys)
        if wrapped.isEmpty, let master = masterKeys?.wrapping, organization.count > 0,
            try organization.string(0, 2) != OrganizationStatus.purging.rawValue
        {
            let new = try WrappedKey.new(number: 1, of: id, by: master)
            let results = try await pool.run([
                OrganizationKeys.make(new, of: id, at: now()), OrganizationKeys.read(id),
            ])
            wrapped = try OrganizationKeys.keys(results[1])
        }
        return Seal(of: id, wrapped, masterKeys) { [failure] place, error in
            failure.note(unreadable: place, of: id, error)
        }
    }

    /// An organization whose upstream does not open is locked, and troubles nobody else.
    private func organization(_ rows: Rows, upstream: Rows, _ seal: Seal) throws -> (Organization?, Seal) {
        do {
            return (try Self.organization(rows, upstream: upstream, seal), seal)
        } catch let error as SealError {
            let locked = Seal.locked(error.description)
            return (try Self.organization(rows, upstream: upstream, locked), locked)
        }
    }

    /// What was read after now was read before the clock was set back.
    private static func isFresh(_ readAt: Timestamp, at now: Timestamp) -> Bool {
        readAt <= now && now.microseconds - readAt.microseconds < lifetime
    }

    /// Forgets an organization: the next request reads it anew.
    func invalidate(_ id: UUID) {
        state.withLock { state in
            state.generation += 1
            state.entries[id] = nil
            state.users = state.users.filter { $0.key.organization != id }
        }
    }

    /// Notes that a committed push has put types to use.
    func markInUse(_ types: [EntityType], in id: UUID) {
        state.withLock { state in
            for type in types {
                var type = type
                type.isInUse = true
                state.entries[id]?.types[type.name] = type
            }
        }
    }

    // MARK: - Statements

    static let organizationStatement = Statement(
        "catalog_organization",
        """
        SELECT id, name, status, settings, (
            SELECT n FROM (SELECT count(*)::int FROM pg_inherits WHERE inhparent = 'lanes'::regclass) p (count),
                LATERAL generate_series(0, p.count - 1) n
            WHERE satisfies_hash_partition('lanes'::regclass, p.count, n, id))
        FROM organizations WHERE id = $1
        """
    )

    static let typesStatement = Statement(
        "catalog_entity_types",
        """
        SELECT name, id_space, visibility, default_priority, is_forwarded, is_in_use, relations
        FROM entity_types WHERE organization_id = $1
        """
    )

    static let upstreamStatement = Statement(
        "catalog_upstream",
        """
        SELECT base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers
        FROM upstreams WHERE organization_id = $1
        """
    )

    static let userStatement = Statement(
        "catalog_user",
        "SELECT 1 FROM users WHERE organization_id = $1 AND user_id = $2"
    )

    private static func organization(_ rows: Rows, upstream: Rows, _ seal: Seal) throws -> Organization? {
        guard rows.count > 0 else { return nil }
        return Organization(
            id: try rows.uuid(0, 0),
            name: try rows.string(0, 1),
            status: OrganizationStatus(rawValue: try rows.string(0, 2)) ?? .suspended,
            settings: OrganizationSettings(stored: try JSONTree(parsing: rows.bytes(0, 3)).root),
            // of one that is locked nobody is served, and no lane runs
            upstream: seal.lock == nil ? try Self.upstream(upstream, seal) : nil
        )
    }

    /// Reads the first seven columns of ``upstreamStatement`` and its like; nil when there is no row.
    static func upstream(_ rows: Rows, _ seal: Seal) throws -> UpstreamSettings? {
        guard rows.count > 0 else { return nil }
        let credential = try seal.open(json: rows.optionalBytes(0, 1), as: .upstream(.credential))
        let headers = try seal.open(json: rows.bytes(0, 5), as: .upstream(.headers)) ?? []
        return UpstreamSettings(
            baseURL: try rows.string(0, 0),
            credential: try credential.flatMap { UpstreamCredential(stored: try JSONTree(parsing: $0).root) },
            timeoutSeconds: Int(try rows.int16(0, 2)),
            maximumConcurrency: Int(try rows.int16(0, 3)),
            idPointer: try rows.string(0, 4),
            headers: UpstreamSettings.headers(stored: try JSONTree(parsing: headers).root),
            allowedHeaders: try rows.strings(0, 6)
        )
    }

    /// Where tables are not partitioned, organizations are spread all the same.
    private static func partition(_ rows: Rows, of id: UUID) throws -> Int {
        if rows.count > 0, let number = try rows.optionalInt32(0, 4) { return Int(number) }
        return Int(id.uuid.15 ^ id.uuid.13 ^ id.uuid.7 ^ id.uuid.3)
    }

    private static func types(_ rows: Rows) throws -> [String: EntityType] {
        var types: [String: EntityType] = [:]
        for row in 0..<rows.count {
            let type = EntityType(
                name: try rows.string(row, 0),
                idSpace: IDSpace(rawValue: try rows.string(row, 1)) ?? .mapped,
                visibility: Visibility(rawValue: try rows.string(row, 2)) ?? .user,
                defaultPriority: try rows.int16(row, 3),
                isForwarded: try rows.bool(row, 4),
                isInUse: try rows.bool(row, 5)
            )
            types[type.name] = type
        }
        // a type may lead to one that stands behind it, or to itself
        let spaces = types.mapValues(\.idSpace)
        for row in 0..<rows.count {
            var relations = EntityType.relations(stored: try JSONTree(parsing: rows.bytes(row, 6)).root)
            for place in relations.indices { relations[place].idSpace = spaces[relations[place].entityType] }
            types[try rows.string(row, 0)]?.relations = relations
        }
        return types
    }
}
