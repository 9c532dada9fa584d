package import FoundationEssentials
package import Postgres
package import SyncModel

/// Fetches users' own keys into memory, and creates missing keys.
///
/// One statement handles many keys.
package struct UserKeys: Sendable {
    /// The maximum number of attempts at work that lacks keys.
    ///
    /// The missing keys are fetched after each attempt. Therefore more than two attempts are rare. The maximum ends
    /// work that lacks other keys in each attempt.
    static let attempts = 200

    let pool: Pool
    /// The master keys; nil if nothing is sealed.
    let masterKeys: MasterKeys?
    /// The cached keys of all organizations.
    package let ring = UserKeyRing()
    let now: TimeSource
    /// Users for whom no key is created, because their key is missing and stored values depend on it.
    ///
    /// The missing key may still be restored. Therefore no second key must exist. Values of these users are sealed with
    /// the organization's key alone.
    package var withoutKey: Set<LaneKey> = []

    /// Whether a master key is configured to wrap users' keys.
    package var canMake: Bool { masterKeys?.wrapping != nil }

    /// Fetches the keys that seal users' rows, if they are not cached, and creates missing keys.
    ///
    /// This method uses a separate transaction, so that later writes name keys that are already stored.
    package func prepare(_ users: some Sequence<LaneKey>, _ seal: (UUID) -> Seal?) async throws {
        let lacking = lacking(users, seal)
        if !lacking.isEmpty { try await make(lacking) }
    }

    /// Fetches existing keys that seal users' rows, if they are not cached.
    ///
    /// This method creates no keys. A caller that still lacks a key calls ``fetchMissingKeys(_:)``.
    package func fetch(_ users: some Sequence<LaneKey>, _ seal: (UUID) -> Seal?) async throws {
        let lacking = lacking(users, seal)
        if !lacking.isEmpty { _ = try await read(lacking.sorted(), isRefused: false) }
    }

    private func lacking(_ users: some Sequence<LaneKey>, _ seal: (UUID) -> Seal?) -> Set<LaneKey> {
        Set(users.filter { seal($0.organization)?.lacking([$0]).isEmpty == false })
    }

    /// Fetches the keys that an error lists, and creates the keys that do not exist.
    ///
    /// - Throws: the given error, if it is of another kind.
    package func fetchMissingKeys(_ error: SealError) async throws {
        switch error {
        case .unknownUserKeys(let users): _ = try await read(users.sorted(), isRefused: false)
        case .noUserKeys(let users): try await make(users)
        case .locked, .unknownKey, .destroyedUserKey, .closedUserKey, .damaged: throw error
        }
    }

    /// Runs `body`, and repeats it while users' keys are missing.
    package func fetchingMissingKeys<Value>(_ body: () async throws -> Value) async throws -> Value {
        for _ in 1..<Self.attempts {
            do {
                return try await body()
            } catch let error as SealError where error.lacksUserKeys {
                try await fetchMissingKeys(error)
            }
        }
        return try await body()
    }

    /// - Returns: the users without a key.
    private func read(_ users: [LaneKey], isRefused: Bool) async throws -> [LaneKey] {
        let found = try await pool.runByIndex(UserKeyRows.read(users)).read(UserKeyRows.key)
        for key in found { ring.insert(key, masterKeys) }
        let none = Set(users).subtracting(found.map(\.name)).sorted()
        for user in none { ring.insertNone(for: user, isRefused: isRefused) }
        return none
    }

    private func make(_ users: Set<LaneKey>) async throws {
        let missing = try await read(users.sorted(), isRefused: masterKeys?.wrapping == nil)
        guard !missing.isEmpty, let master = masterKeys?.wrapping else { return }
        let new = try missing.filter { !withoutKey.contains($0) }.map { try WrappedUserKey.new(for: $0, by: master) }
        if !new.isEmpty {
            let make = UserKeyRows.make(new, by: master.label, at: now())
            _ = try await pool.runByIndex(make)
        }
        _ = try await read(missing, isRefused: true)
    }
}

/// Rows of `user_keys`.
package enum UserKeyRows {
    package static let columns = "k.organization_id, k.made_for, k.master_key, k.wrapped_key"

    /// Reads the columns of ``columns``.
    package static func key(_ row: inout RowReader) throws -> WrappedUserKey {
        WrappedUserKey(
            name: LaneKey(organization: try row.read("organization_id"), user: try row.read("made_for")),
            masterKey: try row.read("master_key"),
            bytes: try row.read("wrapped_key")
        )
    }

    /// Reads the keys of users.
    static let readStatement = Statement(
        "user_keys_read",
        ["organizations", "users"],
        """
        SELECT \(columns)
        FROM unnest(:organizations::uuid[], :users::uuid[]) AS o (organization_id, made_for)
        CROSS JOIN LATERAL (
            SELECT * FROM user_keys x
            WHERE x.organization_id = o.organization_id AND x.made_for = o.made_for
            OFFSET 0
        ) k
        """
    )

    /// Inserts keys for users without a key. If two gateways create a key for a user, only the first is stored.
    ///
    /// The statement locks the organizations' rows, which a purge changes first. Therefore no key remains after a
    /// purge. If a user's rows were deleted, no key is created, because an erasure may already have destroyed the
    /// user's key.
    static let makeStatement = Statement(
        "user_keys_make",
        ["organizations", "users", "master_key", "wrapped_keys", "now"],
        """
        INSERT INTO user_keys AS k (organization_id, made_for, user_id, master_key, wrapped_key, created_at)
        SELECT o.id, n.made_for, n.made_for, :master_key, n.wrapped_key, :now
        FROM unnest(:organizations::uuid[], :users::uuid[], :wrapped_keys::bytea[]) AS n (organization_id, made_for, wrapped_key)
        CROSS JOIN LATERAL (
            SELECT x.id FROM organizations x WHERE x.id = n.organization_id AND x.status <> 'purging' FOR SHARE
        ) o
        WHERE coalesce((
            SELECT e.state FROM user_erasures e
            WHERE e.organization_id = n.organization_id
                AND e.user_hash = sha256(uuid_send(n.organization_id) || uuid_send(n.made_for))), 'closing') = 'closing'
        ON CONFLICT (organization_id, made_for) DO NOTHING
        """
    )

    /// Destroys the keys of users (`users`), and of the users who were joined into them.
    package static let destroyStatement = Statement(
        "user_keys_destroy",
        ["organization", "users"],
        """
        DELETE FROM user_keys AS k
        WHERE k.organization_id = :organization AND (k.user_id = ANY (:users::uuid[]) OR k.made_for = ANY (:users::uuid[]))
        RETURNING k.made_for
        """
    )

    /// Moves the keys of one user (`user`) to another user (`into`).
    package static let moveStatement = Statement(
        "user_keys_move",
        ["organization", "user", "into"],
        "UPDATE user_keys AS k SET user_id = :into WHERE k.organization_id = :organization AND k.user_id = :user"
    )

    static func read(_ users: [LaneKey]) -> Query {
        readStatement(organizations: users.map(\.organization), users: users.map(\.user))
    }

    static func make(_ keys: [WrappedUserKey], by label: String, at moment: Timestamp) -> Query {
        makeStatement(
            organizations: keys.map(\.name.organization),
            users: keys.map(\.name.user),
            master_key: label,
            wrapped_keys: keys.map { PostgresBytes($0.bytes) },
            now: moment
        )
    }

    package static let statements = [readStatement, makeStatement, destroyStatement, moveStatement]
}
