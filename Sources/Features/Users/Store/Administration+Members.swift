package import Foundation
import Postgres
package import SyncModel
package import SyncStore

/// Members of organizations with explicit provisioning.
extension Administration {
    /// Adds a user, or the one that it was joined into.
    ///
    /// Nil if there is no such organization, else whether the user is new.
    ///
    /// - Throws: `user_erased`; `invalid_request` of an id that no user has.
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

    /// Removes a user, or the one that it was joined into, from an organization with explicit provisioning.
    ///
    /// The user's pushed data stay. Returns false if the user was unknown.
    package func deleteUser(_ user: UUID, in organization: UUID) async throws(Problem) -> Bool {
        let whole = try await whole(user, in: organization)
        let parameters = Parameters(of: LaneKey(organization: organization, user: whole))
        let rows = try await run(Self.deleteUserStatement, parameters, "delete a user")
        catalog.invalidate(organization)
        return rows.affected > 0
    }

    /// The user that a user was joined into, or the user itself: a joined user's token is accepted as the other's.
    private func whole(_ user: UUID, in organization: UUID) async throws(Problem) -> UUID {
        let parameters = Parameters(of: LaneKey(organization: organization, user: user))
        return try await rows(Self.wholeStatement, parameters, "look up a user") { try $0.uuid("into_id") }.first
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
