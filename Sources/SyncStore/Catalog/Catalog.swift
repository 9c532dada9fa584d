package import FoundationEssentials
import JSONText
import Postgres
package import SyncModel
import Synchronization

/// Caches organizations and their entity types for five seconds.
///
/// An operator's change takes effect immediately in the gateway that made it, and within five seconds in all others.
///
/// Correctness never depends on the cache:
///
/// - An id space is fixed once a type is in use, and a push marks a type as in use in its own transaction.
/// - A purged organization accepts no new lanes.
package final class Catalog: Sendable {
    /// The time for which a cached entry is valid, in microseconds.
    package static let lifetime: Int64 = 5_000_000
    /// The value of ``lifetime`` in seconds.
    package static let lifetimeSeconds = Double(lifetime) / 1_000_000
    /// The interval, in seconds, at which the gateway checks whether the caller of a waiting request may still be
    /// served.
    package static let waitSeconds: Double = 2
    /// The time in seconds within which every gateway stops using the earlier state of a changed organization or user.
    ///
    /// This also applies to requests that wait for changes.
    package static let settlingSeconds = lifetimeSeconds + waitSeconds + 1
    /// The maximum number of cached organizations. If it is exceeded, the cache is cleared.
    static let capacity = 20_000

    package struct Entry: Sendable {
        /// The organization; nil if it does not exist.
        ///
        /// Unknown organizations are cached too, so that repeated requests for an unknown organization need no query.
        package var organization: Organization?
        package var types: [ByteExactString: EntityType]
        /// The enforced relations of the organization's types.
        var relations = EntityRelations()
        /// The rules of types with channels.
        var channelRules: [ByteExactString: ChannelRules] { ChannelRules.byType(types) }
        /// The partition and shard of the organization's rows.
        var place: Placement
        /// Seals and opens the organization's stored values.
        var seal: Seal
        /// Users who were joined into others.
        package var joins = UserJoins()
        /// Whether events are accepted, because the organization has a valid service token.
        var hasSources = false
        /// Users whose erasure is recent or in progress.
        var erased = ErasedUsers()
        var readAt: Timestamp

        /// Whether the entry was read at most five seconds ago.
        ///
        /// If the time of reading is after `now`, the clock was set back after the read, and the entry is not fresh.
        fileprivate func isFresh(at now: Timestamp) -> Bool {
            Catalog.isFresh(readAt, at: now) && !joins.isOutdated(at: now)
        }
    }

    private struct State {
        var entries: [UUID: Entry] = [:]
        var users: [LaneKey: Timestamp] = [:]
        /// Users who are known not to be erased, with the time of the check.
        var present = GenerationCache<LaneKey, Timestamp>(capacity: capacity)
        /// The times at which the cached organizations were created.
        ///
        /// If an organization was purged and created again under its id, the new organization has another time.
        var createdAtByID: [UUID: Timestamp] = [:]
        /// Returns the issuers whose subjects, if they are UUIDs, are the ids of users.
        var uuidIssuers: (@Sendable () -> Set<ByteExactString>?)?
        /// Called when an organization no longer exists, because other caches may have entries about it.
        var recreationHandler: (@Sendable () -> Void)?
        /// The number of invalidations. A result is not cached if its read began before the last invalidation.
        var generation = 0

        /// Records the time at which an organization was created; nil if the organization does not exist.
        ///
        /// - Returns: whether another organization may have had this id before.
        mutating func record(_ id: UUID, createdAt: Timestamp?) -> Bool {
            guard createdAtByID[id] != createdAt else { return false }
            let isOver = createdAtByID.count >= Catalog.capacity
            if isOver { createdAtByID.removeAll() }
            defer { createdAtByID[id] = createdAt }
            return isOver || createdAtByID[id] != nil
        }
    }

    private let pool: Pool
    private let reader: CatalogReader
    /// The master keys; nil if values are not encrypted at rest.
    private let masterKeys: MasterKeys?
    /// Users' own keys.
    package let userKeys: UserKeys
    private let now: TimeSource
    private let failure: StoreFailure
    private let state = Mutex(State())

    init(
        pool: Pool,
        cluster: Cluster,
        masterKeys: MasterKeys?,
        now: @escaping TimeSource,
        failure: StoreFailure
    ) {
        self.pool = pool
        reader = CatalogReader(pool: pool, cluster: cluster, now: now)
        self.masterKeys = masterKeys
        userKeys = UserKeys(pool: pool, masterKeys: masterKeys, now: now)
        self.now = now
        self.failure = failure
    }

    /// Returns an organization, at most five seconds old; nil if it does not exist.
    ///
    /// - Throws: `store_unavailable` if the organization is not cached and the database is unavailable, or if its data
    ///   are encrypted and this gateway cannot decrypt them.
    package func organization(_ id: UUID) async throws(Problem) -> Organization? {
        let entry = try await entry(id)
        if entry.seal.lock != nil { throw StoreFailure.sealed }
        return entry.organization
    }

    /// Returns an organization and the owner of a user's requests from the cache, at most five seconds old.
    ///
    /// The result is nil if the cache lacks the organization or the user, or if either must not be served.
    package func cached(_ id: UUID, _ user: UUID) -> (organization: Organization, user: UUID)? {
        guard let entry = cachedEntry(id), entry.seal.lock == nil, let organization = entry.organization else {
            return nil
        }
        let owner: UUID
        switch entry.joins.state(of: user, at: now()) {
        case .itself: owner = user
        case .part(let target): owner = target
        case .closed: return nil
        }
        guard isCachedAsPresent(LaneKey(organization: id, user: owner), entry) else { return nil }
        return (organization, owner)
    }

    /// Returns the owner of a user's requests: the user, or the user into whom this user was joined.
    ///
    /// - Throws: `overloaded` while the user is being joined with another user; `user_erased`.
    package func owner(of user: UUID, in organization: UUID) async throws(Problem) -> UUID {
        let entry = try await entry(organization)
        let owner: UUID
        switch entry.joins.state(of: user, at: now()) {
        case .itself: owner = user
        case .part(let target): owner = target
        case .closed: throw .userIsJoining
        }
        let lane = LaneKey(organization: organization, user: owner)
        if isCachedAsPresent(lane, entry) { return owner }
        guard try await isPresent(lane, entry) else { throw .userErased }
        return owner
    }

    /// Returns whether a user is neither joined into another user nor being joined.
    ///
    /// The result is at most five seconds old.
    package func isItself(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool {
        try await entry(organization).joins.state(of: user, at: now()) == .itself
    }

    /// The time for which the cache remembers that a user is not erased, in microseconds.
    ///
    /// An organization's entry contains the erasures that began within twice this time. Therefore the entry contains
    /// each erasure that began after a cached check.
    private static let presence = Int64(ErasedUsers.memory / 2) * 1_000_000

    /// Whether a user is cached as not erased; false means unknown.
    private func isCachedAsPresent(_ user: LaneKey, _ entry: Entry) -> Bool {
        guard entry.erased.isAny else { return true }
        guard !entry.erased.contains(user), let since = state.withLock({ $0.present.find(user) }) else { return false }
        let moment = now()
        return since <= moment && moment.microseconds - since.microseconds < Self.presence
    }

    private func isPresent(_ user: LaneKey, _ entry: Entry) async throws(Problem) -> Bool {
        if entry.erased.contains(user) { return false }
        let (moment, generation) = (now(), state.withLock { $0.generation })
        let isErased: Bool
        do {
            isErased = try await pool.run([ErasedUsers.lookUp(user)])[0].count > 0
        } catch {
            throw failure.problem(error, doing: "look up a user")
        }
        if isErased { return false }
        state.withLock { state in
            if state.generation == generation { state.present.insert(moment, for: user) }
        }
        return true
    }

    /// Returns whether a user's data were erased or are being erased. Reads the database.
    package func isErased(_ user: LaneKey) async throws(Problem) -> Bool {
        do {
            return try await pool.run([ErasedUsers.lookUp(user)])[0].count > 0
        } catch {
            throw failure.problem(error, doing: "look up a user")
        }
    }

    /// Returns the reason why a user has no lane, if the organization was active a moment ago.
    func reasonForNoLane(of lane: LaneKey, taking what: String) async -> Problem {
        invalidate(lane.organization)
        do throws(Problem) {
            // the user was joined into another user, for whom the same request is accepted
            if try await owner(of: lane.user, in: lane.organization) != lane.user { return .userIsJoining }
            return Problem(.organizationUnknown, "the organization does not accept \(what)")
        } catch {
            return error
        }
    }

    /// Returns whether a user has ever pushed, or was added by an operator.
    package func isUserKnown(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool {
        let key = LaneKey(organization: organization, user: user)
        if isUserCached(key) { return true }
        let moment = now()
        let generation = state.withLock { $0.generation }
        let found: Bool
        do {
            found =
                try await pool.run([Self.userStatement(organization: key.organization, user: key.user)])[0].count > 0
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

    /// Whether a user is cached as known; false means unknown.
    package func isUserCached(_ user: LaneKey) -> Bool {
        let moment = now()
        return state.withLock { $0.users[user].map { Self.isFresh($0, at: moment) } ?? false }
    }

    /// Returns the entry of an organization from memory, at most five seconds old; nil if it is not in memory.
    package func cachedEntry(_ id: UUID) -> Entry? {
        let moment = now()
        guard let cached = state.withLock({ $0.entries[id] }), cached.isFresh(at: moment) else {
            return nil
        }
        return cached
    }

    /// Returns the entry of an organization, at most five seconds old.
    package func entry(_ id: UUID) async throws(Problem) -> Entry {
        if let cached = cachedEntry(id) { return cached }
        let moment = now()
        let generation = state.withLock { $0.generation }
        let read: Entry
        let createdAt: Timestamp?
        do {
            let rows = try await reader.read(id)
            let found = try Found(id, rows)
            let joins = try UserJoins(rows.joins)
            let types = try Self.types(rows.types, joins, uuidIssuers: state.withLock { $0.uuidIssuers })
            let users = UserSealing(
                userKeys.ring,
                seals: found?.settings.userKeys == true,
                privateTypes: Set(types.values.lazy.filter { $0.visibility == .user }.map(\.name))
            )
            var seal = try await seal(of: id, rows.keys, users, found)
            var organization: Organization?
            if let found { (organization, seal) = try self.organization(found, upstream: rows.upstream, seal) }
            if let reason = seal.lock { failure.record(locked: id, reason) }
            createdAt = rows.createdAt
            var entry = Entry(
                organization: organization,
                types: types,
                place: rows.place ?? .partition(Self.spread(id)),
                seal: seal,
                joins: joins,
                hasSources: rows.hasSources,
                erased: try ErasedUsers(rows.erasures),
                readAt: moment
            )
            entry.relations = EntityRelations(types)
            read = entry
        } catch {
            throw failure.problem(error, doing: "read an organization")
        }
        let recreationHandler = state.withLock { state in
            let isAnother = state.record(id, createdAt: createdAt)
            if state.generation == generation {
                if state.entries.count >= Self.capacity { state.entries.removeAll() }
                state.entries[id] = read
            }
            return isAnother ? state.recreationHandler : nil
        }
        if let recreationHandler {
            userKeys.ring.removeAll()
            recreationHandler()
        }
        return read
    }

    /// Unwraps an organization's keys.
    ///
    /// If there is no key and a master key can wrap one, creates the first key.
    private func seal(
        of id: UUID,
        _ keys: [RowReader],
        _ users: UserSealing,
        _ organization: Found?
    ) async throws -> Seal {
        var wrapped = try keys.map { row in
            var row = row
            return try OrganizationKeys.key(&row)
        }
        if wrapped.isEmpty, let master = masterKeys?.wrapping, let organization, organization.status != .purging {
            let new = try WrappedKey.new(number: 1, of: id, by: master)
            let results = try await pool.run([
                OrganizationKeys.make(new, of: id, at: now()), OrganizationKeys.read(id),
            ])
            wrapped = try OrganizationKeys.keys(results[1])
        }
        return Seal(of: id, wrapped, masterKeys, users: users) { [failure] place, error in
            failure.record(unreadable: place, of: id, error)
        }
    }

    /// Unseals the upstream settings.
    ///
    /// If the settings cannot be unsealed, only this organization is locked. Other organizations are not affected.
    private func organization(_ found: Found, upstream: RowReader?, _ seal: Seal) throws -> (Organization, Seal) {
        func organization(_ upstream: UpstreamSettings?) -> Organization {
            Organization(
                id: found.id,
                name: found.name,
                status: found.status,
                settings: found.settings,
                upstream: upstream
            )
        }
        // a locked organization is not served, and none of its lanes runs
        guard seal.lock == nil, var row = upstream else { return (organization(nil), seal) }
        do {
            return (organization(try UpstreamSettingsRow.read(&row, seal)), seal)
        } catch let error as SealError {
            return (organization(nil), .locked(error.description))
        }
    }

    /// Whether a value that was read at `readAt` is fresh.
    ///
    /// If `readAt` is after `now`, the clock was set back after the read, and the value is not fresh.
    private static func isFresh(_ readAt: Timestamp, at now: Timestamp) -> Bool {
        readAt <= now && now.microseconds - readAt.microseconds < lifetime
    }

    /// Sets the callback for an id whose cached organization no longer exists.
    ///
    /// This or another gateway has purged the organization, and a new organization may have its id.
    func onRecreated(_ action: @escaping @Sendable () -> Void) { state.withLock { $0.recreationHandler = action } }

    /// Sets the source of the issuers whose subjects, if they are UUIDs, are the ids of users.
    ///
    /// The catalog needs these issuers because documents can name users by their subjects, as tokens do. The source
    /// returns nil if the gateway has no token settings.
    package func setUUIDIssuers(_ issuers: @escaping @Sendable () -> Set<ByteExactString>?) {
        state.withLock { $0.uuidIssuers = issuers }
    }

    /// Drops an organization from the cache. The next request reads it again.
    package func invalidate(_ id: UUID) {
        state.withLock { state in
            state.generation += 1
            state.entries[id] = nil
            state.present.removeAll()
            state.users = state.users.filter { $0.key.organization != id }
        }
    }

    /// Records that a committed push has used types for the first time.
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

    static let userStatement = Statement(
        "catalog_user",
        ["organization", "user"],
        "SELECT 1 FROM users WHERE organization_id = :organization AND user_id = :user"
    )

    private struct Found {
        let id: UUID
        let name: String
        let status: OrganizationStatus
        let settings: OrganizationSettings

        init?(_ id: UUID, _ found: CatalogReader.Found) throws {
            guard var row = found.organization else { return nil }
            self.id = id
            name = try row.read("name")
            status = OrganizationStatus(rawValue: try row.read("status")) ?? .suspended
            settings = OrganizationSettings(stored: try JSONTree(parsing: row.read("settings")).root)
        }
    }

    /// Derives a number from an organization's id. The number replaces the partition if tables are not partitioned.
    private static func spread(_ id: UUID) -> Int { Int(id.uuid.15 ^ id.uuid.13 ^ id.uuid.7 ^ id.uuid.3) }

    private static func types(
        _ rows: [RowReader],
        _ joins: UserJoins,
        uuidIssuers: (@Sendable () -> Set<ByteExactString>?)?
    ) throws -> [ByteExactString: EntityType] {
        var types: [ByteExactString: EntityType] = [:]
        for var row in rows {
            let type = try EntityTypeRow.read(&row)
            types[type.name] = type
        }
        // a relation may name a type later in the list, or its own type
        let spaces = types.mapValues(\.idSpace)
        return types.mapValues { type in
            var type = type
            if type.grantsToSubjects { type.channels.uuidIssuers = uuidIssuers?() }
            if !type.channels.grants.isEmpty { type.channels.joinedUsers = joins.targets }
            for place in type.relations.indices {
                type.relations[place].idSpace = spaces[type.relations[place].entityType]
            }
            return type
        }
    }

    static let statements = [userStatement, ErasedUsers.lookUp] + CatalogReader.statements + UserKeyRows.statements
}
