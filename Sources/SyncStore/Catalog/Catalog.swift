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
    private let now: TimeSource
    private let failure: StoreFailure
    private let state = Mutex(State())

    init(pool: Pool, now: @escaping TimeSource, failure: StoreFailure) {
        self.pool = pool
        self.now = now
        self.failure = failure
    }

    /// An organization, at most five seconds old; nil when there is none.
    ///
    /// - Throws: `store_unavailable` when it is not cached and the database is away.
    public func organization(_ id: UUID) async throws(Problem) -> Organization? {
        try await entry(id).organization
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
                Query(Self.upstreamStatement, parameters),
            ])
            read = Entry(
                organization: try Self.organization(rows[0], upstream: rows[2]),
                types: try Self.types(rows[1]),
                partition: try Self.partition(rows[0], of: id),
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
        SELECT name, id_space, visibility, default_priority, is_forwarded, is_in_use
        FROM entity_types WHERE organization_id = $1
        """
    )

    static let upstreamStatement = Statement(
        "catalog_upstream",
        """
        SELECT base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers
        FROM upstreams WHERE organization_id = $1
        """
    )

    static let userStatement = Statement(
        "catalog_user",
        "SELECT 1 FROM users WHERE organization_id = $1 AND user_id = $2"
    )

    private static func organization(_ rows: Rows, upstream: Rows) throws -> Organization? {
        guard rows.count > 0 else { return nil }
        return Organization(
            id: try rows.uuid(0, 0),
            name: try rows.string(0, 1),
            status: OrganizationStatus(rawValue: try rows.string(0, 2)) ?? .suspended,
            settings: OrganizationSettings(stored: try JSONTree(parsing: rows.bytes(0, 3)).root),
            upstream: try Self.upstream(upstream)
        )
    }

    /// Reads the first six columns of ``upstreamStatement`` and its like; nil when there is no row.
    static func upstream(_ rows: Rows) throws -> UpstreamSettings? {
        guard rows.count > 0 else { return nil }
        return UpstreamSettings(
            baseURL: try rows.string(0, 0),
            credential: try rows.optionalBytes(0, 1).flatMap {
                UpstreamCredential(stored: try JSONTree(parsing: $0).root)
            },
            timeoutSeconds: Int(try rows.int16(0, 2)),
            maximumConcurrency: Int(try rows.int16(0, 3)),
            idPointer: try rows.string(0, 4),
            headers: UpstreamSettings.headers(stored: try JSONTree(parsing: rows.bytes(0, 5)).root)
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
        return types
    }
}
