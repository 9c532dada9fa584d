package import FoundationEssentials
import Postgres
package import SyncModel
package import SyncStore

/// Seals values that are stored in plain text or under an older data key, row by row, while gateways run.
extension KeyRotation {
    /// Seals an organization's rows under its newest data key, and drops its older keys.
    ///
    /// If a user has a separate key, the user's rows are sealed under this key. Values that are already sealed under
    /// the right key are only read. Values that cannot be decrypted stay unchanged, and are reported. If a run is
    /// interrupted, call this method again to continue.
    ///
    /// - Parameters:
    ///   - grace: the seconds from the creation of the newest key to the start of sealing. The run waits until this
    ///     time has passed.
    ///   - dropsKeys: whether to drop older data keys once no value is sealed under them.
    ///   - onWait: called before the run waits, with the number of seconds.
    ///   - progress: called after every few hundred rows.
    /// - Returns: nil if there is no such organization.
    /// - Throws: `validation_failed` if the organization has no data key and no master key is configured to wrap a new
    ///   one; `store_unavailable` while the organization's data key cannot be unwrapped.
    package func sealRows(
        of organization: UUID,
        grace: Double = OrganizationKeys.grace,
        dropsKeys: Bool = true,
        onWait: @Sendable (Double) -> Void = { _ in },
        _ progress: @escaping @Sendable (SealedRows) -> Void
    ) async throws(Problem) -> SealedRows? {
        do {
            guard try await isThere(organization) else { return nil }
            let seal = try await catalog.seal(of: organization)
            guard let number = seal.number else {
                throw Problem(
                    .validationFailed,
                    "the organization has no data key, and no master key is configured to wrap a new one"
                )
            }
            try await waitUntilKnown(number, organization, grace, onWait)
            var run = SealingRun(
                tables: tables,
                pool: pool,
                userKeys: catalog.userKeys,
                organization: organization,
                seal: seal,
                number: number,
                progress: progress
            )
            try await run.sealAll()
            if dropsKeys { try await drop(before: number, organization, &run.rows) }
            catalog.invalidate(organization)
            return run.rows
        } catch {
            throw failure.problem(error, doing: "seal an organization's rows")
        }
    }

    /// Creates an organization's first data key, if the organization has no key and a master key is configured to wrap
    /// it.
    ///
    /// Returns false if there is no such organization. Before you seal the rows of several organizations, call this
    /// method for each organization. Then only the first call of ``sealRows(of:grace:dropsKeys:onWait:_:)`` waits for
    /// the new keys.
    package func prepare(_ organization: UUID) async throws(Problem) -> Bool {
        do {
            return try await isThere(organization)
        } catch {
            throw failure.problem(error, doing: "prepare an organization's data key")
        }
    }

    /// Whether the organization exists and is not being purged.
    ///
    /// The method reads the organization through the catalog, which also creates the organization's first data key.
    private func isThere(_ organization: UUID) async throws -> Bool {
        if let masterKeys, masterKeys.wrapping != nil {
            let keys = try OrganizationKeys.keys(await pool.run([OrganizationKeys.read(organization)])[0])
            if keys.isEmpty { try await check(masterKeys, keys, of: organization) }
        }
        catalog.invalidate(organization)
        let status = try await catalog.entry(organization).organization?.status
        return status == .active || status == .suspended
    }

    private func waitUntilKnown(
        _ number: Int32,
        _ organization: UUID,
        _ grace: Double,
        _ onWait: @Sendable (Double) -> Void
    ) async throws {
        let rows = try await pool.run([Self.ageStatement(organization: organization, number: number)])[0]
        guard let made = try rows.read({ try $0.read("created_at", as: Timestamp.self) }).first else { return }
        let known = made.adding(seconds: grace)
        let wait = known.microseconds - now().microseconds
        guard wait > 0 else { return }
        onWait(Double(wait) / 1_000_000)
        try await Task.sleep(for: .microseconds(wait))
    }

    /// Drops older data keys, except keys under which a value may still be sealed.
    private func drop(before number: Int32, _ organization: UUID, _ rows: inout SealedRows) async throws {
        let results = try await pool.run([
            Self.dropStatement(
                organization: organization,
                number: number,
                needs_any: rows.mayNeedAnyKey,
                needed: rows.neededKeys.sorted()
            ),
            Self.keptStatement(organization: organization, number: number),
        ])
        rows.droppedKeys = Int(results[0].affected)
        rows.keptKeys = Int(try results[1].read { try $0.read("count", as: Int64.self) }.first ?? 0)
    }

    // MARK: - Statements

    static let ageStatement = Statement(
        "organization_keys_age",
        ["organization", "number"],
        "SELECT created_at FROM organization_keys WHERE organization_id = :organization AND number = :number"
    )

    static let dropStatement = Statement(
        "organization_keys_drop",
        ["organization", "number", "needs_any", "needed"],
        """
        DELETE FROM organization_keys
        WHERE organization_id = :organization AND number < :number AND NOT :needs_any AND number <> ALL (:needed::int4[])
        """
    )

    static let keptStatement = Statement(
        "organization_keys_kept",
        ["organization", "number"],
        "SELECT count(*) FROM organization_keys WHERE organization_id = :organization AND number < :number"
    )

    static let rowStatements = [ageStatement, dropStatement, keptStatement]
}

extension LaneKey {
    /// The least pair of organization and user after this pair; nil at the end.
    fileprivate var successor: LaneKey? {
        if let next = user.successor { return LaneKey(organization: organization, user: next) }
        return organization.successor.map { LaneKey(organization: $0, user: UUID.least) }
    }
}

/// Rewraps users' keys that another master key wraps.
extension KeyRotation {
    /// Wraps every user's key by the first master key, a page at a time.
    ///
    /// - Parameters:
    ///   - counts: the number of data keys rewrapped so far, and the number of data keys whose master keys are not
    ///     configured. The method adds users' keys to these counts.
    ///   - progress: called with the number of keys rewrapped so far.
    func rewrapUserKeys(
        by master: MasterKey,
        knowing masters: MasterKeys,
        _ counts: inout (rewrapped: Int, unknown: Int),
        _ progress: (Int) -> Void
    ) async throws(Problem) {
        var last = LaneKey(organization: UUID.least, user: UUID.least)
        do {
            while true {
                let page = Self.userPageStatement(
                    first_organization: last.organization,
                    first_user: last.user,
                    master_key: master.label,
                    limit: Self.page
                )
                let found = try await pool.runByIndex(page)
                let keys = try found.read(UserKeyRows.key)
                guard let end = keys.last else { return }
                var queries: [Query] = []
                for key in keys {
                    guard masters[key.masterKey] != nil else {
                        counts.unknown += 1
                        continue
                    }
                    let new = try key.rewrapped(by: master, knowing: masters)
                    queries.append(Self.replace(key, by: new))
                }
                if !queries.isEmpty { _ = try await pool.run(queries) }
                counts.rewrapped += queries.count
                progress(counts.rewrapped)
                // The statement reads from `last` on, and includes `last`, because a user can have the least UUID, with
                // which the first page begins. Therefore the next page must begin after the last user that was read.
                guard let next = end.name.successor else { return }
                last = next
            }
        } catch {
            throw failure.problem(error, doing: "rewrap users' keys")
        }
    }

    private static func replace(_ old: WrappedUserKey, by new: WrappedUserKey) -> Query {
        userReplaceStatement(
            organization: old.name.organization,
            user: old.name.user,
            master_key: old.masterKey,
            new_master_key: new.masterKey,
            wrapped_key: PostgresBytes(new.bytes)
        )
    }

    static let userPageStatement = Statement(
        "user_keys_page",
        ["first_organization", "first_user", "master_key", "limit"],
        """
        SELECT \(UserKeyRows.columns)
        FROM user_keys k
        WHERE (k.organization_id, k.made_for) >= (:first_organization, :first_user) AND k.master_key <> :master_key
        ORDER BY k.organization_id, k.made_for
        LIMIT :limit
        """
    )

    static let userReplaceStatement = Statement(
        "user_keys_replace",
        ["organization", "user", "master_key", "new_master_key", "wrapped_key"],
        """
        UPDATE user_keys SET master_key = :new_master_key, wrapped_key = :wrapped_key
        WHERE organization_id = :organization AND made_for = :user AND master_key = :master_key
        """
    )

    static let userStatements = [userPageStatement, userReplaceStatement]
}
