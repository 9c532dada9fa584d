package import FoundationEssentials
package import Postgres
package import SyncModel
package import SyncStore

/// Users, and their issuers and subjects.
extension Administration {
    /// Returns a page of an organization's known users, by id.
    ///
    /// A user is known after a push, a device registration, a token with a subject, provisioning, or a join into
    /// another user. There is no record of a user who has only read with tokens that contain the user's UUID.
    ///
    /// - Parameters:
    ///   - limit: 1 to 1,000.
    ///   - first: the user at which the page begins; nil for the first page.
    /// - Returns: the users, and the first user of the next page if there is a next page; nil if there is no such
    ///   organization.
    package func users(
        of organization: UUID,
        limit: Int,
        from first: UUID?
    ) async throws(Problem) -> (users: [UserRow], next: UUID?)? {
        guard try await self.organization(organization) != nil else { return nil }
        let parameters = Parameters(of: organization, first ?? UUID.least, limit + 1)
        let found = try await rows(Self.listUsersStatement, parameters, "list users", UserRow.init)
        return (Array(found.prefix(limit)), found.count > limit ? found.last?.id : nil)
    }

    /// Returns a user of an organization; nil if there is no record of this user.
    package func user(_ user: UUID, in organization: UUID) async throws(Problem) -> UserRow? {
        let parameters = Parameters(of: organization, user, Int64(1))
        let found = try await rows(Self.listUsersStatement, parameters, "read a user", UserRow.init).first
        return found?.id == user ? found : nil
    }

    /// Returns the user whom an issuer and a subject identify; nil if there is no such user.
    package func user(_ subject: Subject, in organization: UUID) async throws(Problem) -> UserRow? {
        let id: UUID?
        do {
            let found = try await pool.run([Identities.find(subject, in: organization)])[0]
            id = found.count > 0 ? try found.read(0, 0, as: UUID.self) : nil
        } catch {
            throw failure.problem(error, doing: "look up a user")
        }
        guard let id else { return nil }
        return try await user(id, in: organization)
    }

    /// Provisions the user whom an issuer and a subject identify, before or after the issuer's first token for that
    /// user.
    ///
    /// - Returns: whether the user is newly provisioned, and the user; nil if there is no such organization.
    /// - Throws: `user_erased` if the user was erased.
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
            let making = Identities.make(subject, in: organization, at: moment)
            let results = try await pool.transaction { connection in
                try await connection.run(making + [provision, Identities.erased(subject, in: organization)])
            }
            catalog.invalidate(organization)
            identities.invalidate()
            guard results[2].count > 0 else {
                if results[4].count > 0 { throw Problem.erasedUserIsNotLetIn }
                return nil
            }
            isNew = results[3].affected > 0
        } catch {
            throw failure.problem(error, doing: "write a user")
        }
        guard let user = try await user(subject, in: organization) else { return nil }
        return (isNew, user)
    }
    // MARK: - Statements

    /// Reads users from `first` on. It searches every table that may have the only row of a user.
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

    /// Provisions the user of a subject, or the user into whom this user was joined.
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

/// Members of organizations with explicit provisioning.
extension Administration {
    /// Adds a user, or the user into whom this user was joined.
    ///
    /// - Returns: whether the user is new; nil if there is no such organization.
    /// - Throws: `user_erased`; `invalid_request` for an id that no user can have.
    package func putUser(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool? {
        guard !Writer.isReserved(user) else {
            throw Problem(.invalidRequest, "the id is the nil UUID, which identifies no user")
        }
        guard try await self.organization(organization) != nil else { return nil }
        let lane = LaneKey(organization: organization, user: try await whole(user, in: organization))
        guard try await !catalog.isErased(lane) else { throw .erasedUserIsNotLetIn }
        let parameters = Parameters(of: lane, now())
        let rows = try await run(Self.putUserStatement, parameters, "write a user")
        catalog.invalidate(organization)
        return rows.affected > 0
    }

    /// Removes a user, or the user into whom this user was joined, from an organization with explicit provisioning.
    ///
    /// The user's pushed data stay. Returns false if the user was unknown.
    package func deleteUser(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool {
        let whole = try await whole(user, in: organization)
        let parameters = Parameters(of: LaneKey(organization: organization, user: whole))
        let rows = try await run(Self.deleteUserStatement, parameters, "delete a user")
        catalog.invalidate(organization)
        return rows.affected > 0
    }

    /// Returns the user, or the target if the user was joined. A joined user's tokens are accepted as tokens of the
    /// target.
    private func whole(_ user: UUID, in organization: UUID) async throws(Problem) -> UUID {
        let parameters = Parameters(of: LaneKey(organization: organization, user: user))
        return try await rows(Self.wholeStatement, parameters, "look up a user") {
            try $0.read("into_id", as: UUID.self)
        }.first
            ?? user
    }

    // MARK: - Statements

    static let wholeStatement = Statement(
        "users_whole",
        ["organization", "user"],
        """
        SELECT j.into_id FROM user_joins j
        WHERE j.organization_id = :organization AND j.user_id = :user AND j.closed_until IS NULL
        """
    )

    static let putUserStatement = Statement(
        "users_put",
        ["organization", "user", "now"],
        """
        INSERT INTO users AS u (organization_id, user_id, created_at)
        SELECT :organization::uuid, :user::uuid, :now::timestamptz WHERE NOT (\(ErasedUsers.isErased(":organization::uuid", ":user::uuid")))
        ON CONFLICT (organization_id, user_id) DO NOTHING
        """
    )

    static let deleteUserStatement = Statement(
        "users_delete",
        ["organization", "user"],
        "DELETE FROM users WHERE organization_id = :organization AND user_id = :user"
    )

    static let memberStatements = [wholeStatement, putUserStatement, deleteUserStatement]
}

extension Problem {
    static var erasedUserIsNotLetIn: Problem {
        Problem(.userErased, "The user was erased and cannot be added again; use another id.")
    }
}

// MARK: - UserRow

/// A user as operators see them.
package struct UserRow: Sendable {
    /// An issuer and subject of the user.
    package struct Name: Sendable {
        package let subject: Subject
        /// The time at which the name was first seen or provisioned.
        package let createdAt: Timestamp
    }

    /// The columns of the user `k.user_id` of an organization.
    static let list = """
        k.user_id, u.created_at,
            (SELECT max(d.last_seen_at) FROM devices d WHERE d.organization_id = :organization AND d.user_id = k.user_id)
                AS last_seen_at,
            (SELECT j.into_id FROM user_joins j
                WHERE j.organization_id = :organization AND j.user_id = k.user_id AND j.closed_until IS NULL) AS into_id,
            \(names("x.issuer::text")) AS issuers, \(names("x.subject::text")) AS subjects,
            \(names("(extract(epoch FROM x.created_at) * 1000000)::int8")) AS subjects_created_at
        """

    private static func names(_ column: String) -> String {
        """
        ARRAY(
                    SELECT \(column) FROM user_subjects x
                    WHERE x.organization_id = :organization AND x.user_id = k.user_id ORDER BY x.issuer, x.subject
                )
        """
    }

    package let id: UUID
    /// The time at which the user first pushed, registered a device or was provisioned; nil for a user who has only
    /// read, or was blocked.
    package let registeredAt: Timestamp?
    /// The time at which one of the user's devices last pushed or pulled; nil if no device has done so.
    package let lastSeenAt: Timestamp?
    /// The user into whom this user was joined.
    package let into: UUID?
    /// The user's names, ordered by issuer and subject.
    package let names: [Name]

    /// The time of the user's first record; nil for a user of whom only a join remains.
    package var firstSeenAt: Timestamp? { ([registeredAt] + names.map(\.createdAt)).compactMap(\.self).min() }

    /// Reads the columns of ``list``.
    init(_ row: inout RowReader) throws {
        id = try row.read("user_id")
        registeredAt = try row.read("created_at")
        lastSeenAt = try row.read("last_seen_at")
        into = try row.read("into_id")
        let issuers: [String] = try row.read("issuers")
        let subjects: [String] = try row.read("subjects")
        let moments: [Int64] = try row.read("subjects_created_at")
        names = issuers.indices.map { index in
            Name(
                subject: Subject(issuer: ByteExactString(issuers[index]), text: ByteExactString(subjects[index])),
                createdAt: Timestamp(microseconds: moments[index])
            )
        }
    }
}
