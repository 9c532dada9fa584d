package import Foundation
package import Postgres
package import SyncModel
package import SyncStore

/// Users, and what issuers call them.
extension Administration {
    /// Returns a page of an organization's known users, by id.
    ///
    /// A user is known after a push, a device registration, a token with a subject, being provisioned, or a join into
    /// another user. A user whose token has a UUID, and who has only read, leaves no record.
    ///
    /// - Parameters:
    ///   - limit: 1 to 1,000.
    ///   - first: where the page begins; nil for the first page.
    /// - Returns: the users, and where the next page begins, if there is one; nil if there is no such organization.
    package func users(
        of organization: UUID,
        limit: Int,
        from first: UUID?
    ) async throws(Problem) -> (users: [UserRow], next: UUID?)? {
        guard try await self.organization(organization) != nil else { return nil }
        let parameters = Parameters(of: organization, first ?? UUID.least, Int64(limit + 1))
        let found = try await rows(Self.listUsersStatement, parameters, "list users", UserRow.init)
        return (Array(found.prefix(limit)), found.count > limit ? found.last?.id : nil)
    }

    /// A user of an organization; nil if nothing is known of such a one.
    package func user(_ user: UUID, in organization: UUID) async throws(Problem) -> UserRow? {
        let parameters = Parameters(of: organization, user, Int64(1))
        let found = try await rows(Self.listUsersStatement, parameters, "read a user", UserRow.init).first
        return found?.id == user ? found : nil
    }

    /// Returns the user with an issuer and subject; nil if there is no such user.
    package func user(_ subject: Subject, in organization: UUID) async throws(Problem) -> UserRow? {
        let id: UUID?
        do {
            let found = try await pool.run([Identities.find(subject, in: organization)])[0]
            id = found.count > 0 ? try found.uuid(0, 0) : nil
        } catch {
            throw failure.problem(error, doing: "look up a user")
        }
        guard let id else { return nil }
        return try await user(id, in: organization)
    }

    /// Provisions the user with an issuer and subject, before the issuer's first token for that user or after it.
    ///
    /// - Returns: whether the user had not been in, and the user; nil if there is no such organization.
    /// - Throws: `user_erased` for one that was erased.
    package func putUser(
        _ subject: Subject,
        in organization: UUID
    ) async throws(Problem) -> (isNew: Bool, value: UserRow)? {
        let moment = now()
        let provision = Self.putSubjectStatement(
            organization: organization,
            issuer: subject.issuer.string,
            subject: subject.text.string,
            now: moment
        )
        let isNew: Bool
        do {
            let making = Identities.make(subject, UUIDv8Generator().make(), in: organization, at: moment)
            let results = try await pool.transaction { connection in
                try await connection.run(making + [provision, Identities.erased(subject, in: organization)])
            }
            catalog.invalidate(organization)
            identities.invalidate()
            guard results[1].count > 0 else {
                if results[3].count > 0 { throw Problem.erasedUserIsNotLetIn }
                return nil
            }
            isNew = results[2].affected > 0
        } catch {
            throw failure.problem(error, doing: "write a user")
        }
        guard let user = try await user(subject, in: organization) else { return nil }
        return (isNew, user)
    }
    // MARK: - Statements

    /// The first users from `first` on, of each table in which one may stand alone.
    package static let listUsersStatement = Statement(
        "users_list",
        ["organization", "first", "limit"],
        """
        SELECT \(UserRow.list)
        FROM (
            SELECT i.user_id
            FROM (\(sources.map(users(of:)).joined(separator: " UNION "))) i
            ORDER BY i.user_id LIMIT :limit
        ) k
        LEFT JOIN LATERAL (
            SELECT y.created_at FROM users y WHERE y.organization_id = :organization AND y.user_id = k.user_id OFFSET 0
        ) u ON true
        ORDER BY k.user_id
        """
    )

    private static let sources = KnownUsers.tables + ["user_subjects", "user_joins"]

    private static func users(of table: String) -> String {
        """
        (SELECT DISTINCT x.user_id FROM \(table) x WHERE x.organization_id = :organization AND x.user_id >= :first
                ORDER BY x.user_id LIMIT :limit)
        """
    }

    /// A subject provisions its user, or the user that this one was joined into.
    package static let putSubjectStatement = Statement(
        "users_put_subject",
        ["organization", "issuer", "subject", "now"],
        """
        INSERT INTO users AS u (organization_id, user_id, created_at)
        SELECT s.organization_id, coalesce(
                (SELECT j.into_id FROM user_joins j
                    WHERE j.organization_id = :organization AND j.user_id = s.user_id AND j.closed_until IS NULL),
                s.user_id
            ), :now::timestamptz
        FROM user_subjects s WHERE s.organization_id = :organization AND s.issuer = :issuer AND s.subject = :subject
        ON CONFLICT (organization_id, user_id) DO NOTHING
        """
    )

    static let userStatements = [listUsersStatement, putSubjectStatement]
}
