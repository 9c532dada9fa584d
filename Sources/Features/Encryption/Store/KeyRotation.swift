package import FoundationEssentials
import Postgres
package import SyncModel
package import SyncStore

/// The operators' actions on data keys, while gateways run.
///
/// Operators can list data keys, wrap them by another master key, and renew them. They can also seal values that are
/// stored in plain text or under an older key.
package struct KeyRotation: Sendable {
    /// The maximum number of keys that one statement reads.
    static let page: Int64 = 500

    let tables: [StoredTable]
    let pool: Pool
    let catalog: Catalog
    let masterKeys: MasterKeys?
    let now: TimeSource
    let failure: StoreFailure

    package struct Key: Sendable, Hashable {
        package let organization: UUID
        /// The number of the key. The key with the organization's highest number seals new values.
        package let number: Int32
        /// The name and the check value of the master key that wraps this key.
        @Exact package private(set) var masterKey: String
        package let createdAt: Timestamp
    }

    /// Returns the data keys after an organization and a key number, sorted by organization and number.
    ///
    /// - Returns: at most 500 keys. Fewer than 500 keys mean that no more keys follow.
    package func keys(after organization: UUID, _ number: Int32) async throws(Problem) -> [Key] {
        try await stored(after: organization, number, excluding: "").map(\.key)
    }

    /// Returns the data keys of an organization, the newest first, up to 100; nil if there is no such organization.
    package func keys(of organization: UUID) async throws(Problem) -> [Key]? {
        do {
            let results = try await pool.run([
                Administration.getStatement(organization: organization),
                Self.ofOrganizationStatement(organization: organization),
            ])
            guard !results[0].isEmpty else { return nil }
            return try results[1].read { row in
                Key(
                    organization: organization,
                    number: try row.read("number"),
                    masterKey: try row.read("master_key"),
                    createdAt: try row.read("created_at")
                )
            }
        } catch {
            throw failure.problem(error, doing: "list an organization's data keys")
        }
    }

    // MARK: - Master keys

    /// Wraps every data key, including users' keys, by the first master key.
    ///
    /// Keys that this master key already wraps stay unchanged. If a run is interrupted, call this method again to
    /// continue.
    ///
    /// - Parameter progress: called after every few hundred keys, with the number of keys that were rewrapped so far.
    /// - Returns: the number of rewrapped keys, and the number of data keys that stay unchanged because their master
    ///   keys are not configured in this process.
    /// - Throws: `validation_failed` if no configured master key can wrap keys.
    package func rewrap(_ progress: (Int) -> Void) async throws(Problem) -> (rewrapped: Int, unknown: Int) {
        let (masters, master) = try wrapping()
        var (rewrapped, unknown) = (0, 0)
        var last = (organization: UUID.least, number: Int32(0))
        while true {
            let keys = try await stored(after: last.organization, last.number, excluding: master.label)
            guard let end = keys.last?.key else { break }
            do {
                var queries: [Query] = []
                for (key, wrapped) in keys {
                    guard masters[key.masterKey] != nil else {
                        unknown += 1
                        continue
                    }
                    let new = try wrapped.rewrapped(of: key.organization, by: master, knowing: masters)
                    queries.append(Self.replace(wrapped, by: new, of: key.organization))
                }
                if !queries.isEmpty { _ = try await pool.run(queries) }
                rewrapped += queries.count
            } catch {
                throw failure.problem(error, doing: "rewrap data keys")
            }
            progress(rewrapped)
            last = (end.organization, end.number)
        }
        var counts = (rewrapped: rewrapped, unknown: unknown)
        try await rewrapUserKeys(by: master, knowing: masters, &counts, progress)
        return counts
    }

    // MARK: - Data keys

    /// Creates a new data key for an organization. The new key seals all later writes.
    ///
    /// Other gateways use the new key within five seconds.
    ///
    /// - Returns: the number of the new key; nil if there is no such organization.
    /// - Throws: `store_unavailable` if this process cannot unwrap the newest data key; `validation_failed` if no
    ///   configured master key can wrap keys.
    package func renew(_ organization: UUID) async throws(Problem) -> Int32? {
        let (masters, master) = try wrapping()
        return try await failure.reporting("renew a data key") {
            while true {
                let keys = try OrganizationKeys.keys(await pool.run([OrganizationKeys.read(organization)])[0])
                try await check(masters, keys, of: organization)
                let number = (keys.map(\.number).max() ?? 0) + 1
                let new = try WrappedKey.new(number: number, of: organization, by: master)
                let results = try await pool.run([
                    OrganizationKeys.make(new, of: organization, at: now()), OrganizationKeys.read(organization),
                ])
                catalog.invalidate(organization)
                if results[0].affected > 0 { return number }
                // no key was created: either another rotation created a key with this number, or there is no such
                // organization
                if try OrganizationKeys.keys(results[1]).allSatisfy({ $0.number < number }) { return nil }
            }
        }
    }

    /// Checks that the master keys unwrap the organization's data keys.
    ///
    /// If the organization has no key yet, the check passes if a data key of another organization is wrapped by one of
    /// the master keys, or if there are no data keys at all.
    ///
    /// A process that fails this check has other master keys than the gateways. The gateways could then not decrypt the
    /// values that this process would seal.
    ///
    /// - Throws: ``SealError/locked(_:)``.
    func check(_ masterKeys: MasterKeys, _ keys: [WrappedKey], of organization: UUID) async throws {
        let reason =
            keys.isEmpty
            ? try await OrganizationKeys.misfit(of: masterKeys, pool) : Seal(of: organization, keys, masterKeys).lock
        if let reason { throw SealError.locked(reason) }
    }

    private func wrapping() throws(Problem) -> (MasterKeys, MasterKey) {
        guard let masterKeys else {
            throw Problem(.validationFailed, "no master key is configured: set SLUICE_MASTER_KEY_FILE")
        }
        guard let master = masterKeys.wrapping else {
            let detail = "the first line of the master key file is '-', so no master key wraps data keys"
            throw Problem(.validationFailed, detail)
        }
        return (masterKeys, master)
    }

    private func stored(
        after organization: UUID,
        _ number: Int32,
        excluding label: String
    ) async throws(Problem) -> [(key: Key, wrapped: WrappedKey)] {
        let page = Self.pageStatement(
            after_organization: organization,
            after_number: number,
            master_key: label,
            limit: Self.page
        )
        return try await failure.reporting("read data keys") {
            let rows = try await pool.run([page])[0]
            return try rows.read { row in
                let wrapped = try OrganizationKeys.key(&row)
                let key = Key(
                    organization: try row.read("organization_id"),
                    number: wrapped.number,
                    masterKey: wrapped.masterKey,
                    createdAt: try row.read("created_at")
                )
                return (key, wrapped)
            }
        }
    }

    private static func replace(_ old: WrappedKey, by new: WrappedKey, of organization: UUID) -> Query {
        replaceStatement(
            organization: organization,
            number: old.number,
            master_key: old.masterKey,
            new_master_key: new.masterKey,
            wrapped_key: PostgresBytes(new.bytes)
        )
    }

    // MARK: - Statements

    static let ofOrganizationStatement = Statement(
        "keys_of_organization",
        ["organization"],
        """
        SELECT k.number, k.master_key, k.created_at FROM organization_keys k
        WHERE k.organization_id = :organization ORDER BY k.number DESC LIMIT 100
        """
    )

    static let pageStatement = Statement(
        "organization_keys_page",
        ["after_organization", "after_number", "master_key", "limit"],
        """
        SELECT \(OrganizationKeys.columns), k.organization_id, k.created_at
        FROM organization_keys k
        WHERE (k.organization_id, k.number) > (:after_organization, :after_number) AND k.master_key <> :master_key
        ORDER BY k.organization_id, k.number
        LIMIT :limit
        """
    )

    static let replaceStatement = Statement(
        "organization_keys_replace",
        ["organization", "number", "master_key", "new_master_key", "wrapped_key"],
        """
        UPDATE organization_keys SET master_key = :new_master_key, wrapped_key = :wrapped_key
        WHERE organization_id = :organization AND number = :number AND master_key = :master_key
        """
    )

    static let statements = [pageStatement, ofOrganizationStatement, replaceStatement] + userStatements
}

extension Store {
    /// Manages data keys, and seals rows that are stored in plain text or under an older key.
    package var keyRotation: KeyRotation {
        KeyRotation(
            tables: tables,
            pool: pool,
            catalog: catalog,
            masterKeys: masterKeys,
            now: now,
            failure: failure
        )
    }
}
