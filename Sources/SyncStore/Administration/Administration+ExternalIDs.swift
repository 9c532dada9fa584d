package import FoundationEssentials
import JSONText
package import Postgres
package import SyncModel

/// The external ids of organizations.
extension Administration {
    /// The maximum number of external ids of one organization.
    package static let maximumExternalIDs = 100

    /// Changes the external ids of an organization. Two such changes never run at the same time.
    ///
    /// - Parameter change: receives the present ids and returns the new ids.
    /// - Returns: the organization; nil if it does not exist.
    /// - Throws: `external_id_taken` with a pointer into the new ids; the errors of `change`.
    package func changeExternalIDs(
        of id: UUID,
        _ change: @Sendable ([ExternalID]) throws(Problem) -> [ExternalID]
    ) async throws(Problem) -> OrganizationRow? {
        do {
            let organization = try await pool.transaction { connection -> OrganizationRow? in
                let get = Self.getStatement(organization: id)
                let found = try await connection.run([Self.holdStatement(organization: id), get])
                guard found[0].count > 0, let row = try found[1].read(OrganizationRow.init).first else { return nil }
                try await Self.write(change(row.externalIDs), of: id, at: now(), on: connection)
                return try await connection.run(get).read(OrganizationRow.init).first
            }
            identities.invalidate()
            return organization
        } catch {
            throw failure.problem(error, doing: "write an organization's names")
        }
    }

    /// Replaces an organization's external ids. The connection's transaction must have locked the organization's row.
    ///
    /// - Throws: `external_id_taken`, `validation_failed`.
    static func write(
        _ names: [ExternalID],
        of organization: UUID,
        at moment: Timestamp,
        on connection: Connection
    ) async throws {
        guard names.count <= maximumExternalIDs else { throw tooManyExternalIDs }
        let key = Parameters(of: organization, names.map(\.issuer.string), names.map(\.id.string))
        let added = names.map { name in
            addExternalIDsStatement(
                organization: organization,
                issuer: name.issuer.string,
                external_id: name.id.string,
                now: moment
            )
        }
        let results = try await connection.run(
            [Query(lockExternalIDsStatement), Query(dropExternalIDsStatement, key)] + added
                + [Query(takenExternalIDsStatement, key)]
        )
        let taken = try results[added.count + 2].read { row in
            (
                name: ExternalID(
                    issuer: ByteExactString(try row.read("issuer")),
                    id: ByteExactString(try row.read("external_id"))
                ),
                organization: try row.read("organization_id", as: UUID.self)
            )
        }
        let owners = Dictionary(taken.map { ($0.name, $0.organization) }) { first, _ in first }
        let details = names.enumerated().compactMap { index, name in
            owners[name].map { owner in
                ProblemDetail(
                    pointer: "/external_ids/\(index)",
                    rule: "external_id_taken",
                    detail: "it is a name of organization \(owner.lowercased)"
                )
            }
        }
        if let first = details.first { throw Problem(.externalIDTaken, first.detail, errors: details) }
    }

    package static var tooManyExternalIDs: Problem {
        let detail = "an organization may have \(maximumExternalIDs) external ids"
        return Problem(.validationFailed, pointer: "/external_ids", rule: Rule.range, detail)
    }

    // MARK: - Statements

    static let holdStatement = Statement(
        "organizations_hold",
        ["organization"],
        "SELECT 1 FROM organizations o WHERE o.id = :organization AND o.status <> 'purging' FOR NO KEY UPDATE"
    )

    /// Serializes changes of external ids, so that two changes that swap ids do not deadlock.
    ///
    /// Readers do not wait for this lock. The organization's row must be locked before this lock is taken.
    static let lockExternalIDsStatement = Statement(
        "external_ids_lock",
        "LOCK TABLE external_ids IN SHARE ROW EXCLUSIVE MODE"
    )

    static let dropExternalIDsStatement = Statement(
        "external_ids_drop",
        ["organization", "issuers", "external_ids"],
        """
        DELETE FROM external_ids x
        WHERE x.organization_id = :organization
            AND (x.issuer, x.external_id) NOT IN (SELECT k.issuer, k.id FROM unnest(:issuers::text[], :external_ids::text[]) k (issuer, id))
        """
    )

    /// Adds one external id.
    ///
    /// On a Citus cluster, every server has a copy of the table, and a row can be added through any server.
    static let addExternalIDsStatement = Statement(
        "external_ids_add",
        ["organization", "issuer", "external_id", "now"],
        """
        INSERT INTO external_ids AS x (organization_id, issuer, external_id, created_at)
        VALUES (:organization, :issuer::text, :external_id::text, :now)
        ON CONFLICT (issuer, external_id) DO NOTHING
        """
    )

    /// Returns the external ids that belong to other organizations, and these organizations.
    ///
    /// Only this look-up and the look-up of a token are not limited to one organization.
    static let takenExternalIDsStatement = Statement(
        "external_ids_taken",
        ["organization", "issuers", "external_ids"],
        """
        SELECT o.issuer, o.external_id, o.organization_id
        FROM unnest(:issuers::text[], :external_ids::text[]) k (issuer, id)
        CROSS JOIN LATERAL (
            SELECT x.issuer::text AS issuer, x.external_id::text AS external_id, x.organization_id FROM external_ids x
            WHERE x.issuer = k.issuer AND x.external_id = k.id AND x.organization_id <> :organization
            OFFSET 0
        ) o
        """
    )

    static let externalIDStatements = [
        holdStatement, dropExternalIDsStatement, addExternalIDsStatement, takenExternalIDsStatement,
    ]
}

extension Administration {
    /// Returns the issuers and subjects of users, by user id. The result omits users without a subject.
    package func subjects(of users: Set<UUID>, in organization: UUID) async throws(Problem) -> [UUID: [Subject]] {
        guard !users.isEmpty else { return [:] }
        let parameters = Parameters(of: organization, Array(users))
        let found = try await rows(Self.subjectsStatement, parameters, "look up users' subjects") { row in
            (
                user: try row.read("user_id", as: UUID.self),
                subject: Subject(
                    issuer: ByteExactString(try row.read("issuer")),
                    text: ByteExactString(try row.read("subject"))
                )
            )
        }
        return Dictionary(grouping: found, by: \.user).mapValues { $0.map(\.subject) }
    }

    package static let subjectsStatement = Statement(
        "users_subjects",
        ["organization", "users"],
        """
        SELECT k.user_id, s.issuer, s.subject
        FROM unnest(:users::uuid[]) k (user_id)
        CROSS JOIN LATERAL (
            SELECT x.issuer::text AS issuer, x.subject::text AS subject FROM user_subjects x
            WHERE x.organization_id = :organization AND x.user_id = k.user_id
            OFFSET 0
        ) s
        ORDER BY k.user_id, s.issuer, s.subject
        """
    )
}
