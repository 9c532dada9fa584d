package import FoundationEssentials
package import Postgres
package import SyncModel

/// Rows of `organization_keys`.
package enum OrganizationKeys {
    /// The time for which another gateway may still write under the previous data key, in seconds.
    ///
    /// A gateway that does not have the new key reads it within five seconds. The grace period is twice this time plus
    /// twice the longest transaction.
    package static let grace: Double = 60

    package static let columns = "k.number, k.master_key, k.wrapped_key"

    /// Reads the keys of organizations, oldest first.
    static let readStatement = Statement(
        "organization_keys_read",
        ["organizations"],
        """
        SELECT k.organization_id, \(columns)
        FROM unnest(:organizations::uuid[]) AS o (organization_id)
        CROSS JOIN LATERAL (SELECT * FROM organization_keys x WHERE x.organization_id = o.organization_id OFFSET 0) k
        ORDER BY k.number
        """
    )

    /// Inserts a key with a new number of the organization.
    ///
    /// If two replicas create a key with the same number, only the first key is stored. The statement locks the
    /// organization's row, which a purge changes first. Therefore no key remains after a purge.
    package static let makeStatement = Statement(
        "organization_keys_make",
        ["organization", "number", "master_key", "wrapped_key", "now"],
        """
        INSERT INTO organization_keys AS k (organization_id, number, master_key, wrapped_key, created_at)
        SELECT o.id, :number, :master_key, :wrapped_key, :now
        FROM (SELECT x.id FROM organizations x WHERE x.id = :organization AND x.status <> 'purging' FOR SHARE) o
        ON CONFLICT (organization_id, number) DO NOTHING
        """
    )

    /// Returns the reason why the master keys must not wrap an organization's first data key; nil if there is no
    /// reason.
    ///
    /// If there are data keys, and the master keys wrap none of these, the database's gateways use other master keys.
    package static func misfit(of masterKeys: MasterKeys, _ pool: Pool) async throws -> String? {
        let fit = fitStatement(master_keys: masterKeys.labels)
        if try await pool.run([fit])[0].read(0, 0, as: Bool.self) { return nil }
        return "the data keys of this database are wrapped by master keys that are not configured"
    }

    private static let fitStatement = Statement(
        "organization_keys_fit",
        ["master_keys"],
        """
        SELECT EXISTS (SELECT 1 FROM organization_keys k WHERE k.master_key = ANY (:master_keys::text[]))
            OR NOT EXISTS (SELECT 1 FROM organization_keys) AS fit
        """
    )

    /// Reads the columns of ``columns``.
    package static func key(_ row: inout RowReader) throws -> WrappedKey {
        WrappedKey(
            number: try row.read("number"),
            masterKey: try row.read("master_key"),
            bytes: try row.read("wrapped_key")
        )
    }

    /// Reads the result of ``read(_:)`` for one organization.
    package static func keys(_ rows: Rows) throws -> [WrappedKey] {
        try rows.read { row in
            row.skip("organization_id")
            return try key(&row)
        }
    }

    package static func read(_ organizations: UUID...) -> Query { read(organizations) }

    static func read(_ organizations: [UUID]) -> Query { readStatement(organizations: organizations) }

    package static func make(_ key: WrappedKey, of organization: UUID, at moment: Timestamp) -> Query {
        return makeStatement(
            organization: organization,
            number: key.number,
            master_key: key.masterKey,
            wrapped_key: PostgresBytes(key.bytes),
            now: moment
        )
    }

    package static let statements = [readStatement, makeStatement, fitStatement]
}
