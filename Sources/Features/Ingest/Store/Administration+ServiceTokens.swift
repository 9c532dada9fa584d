package import Foundation
import Postgres
package import SyncModel
package import SyncStore

extension Administration {
    /// Service tokens of an organization that are good at a time.
    package static let serviceTokenLimit = 100
    /// Revoked ones that are kept to be shown: the latest.
    static let revokedTokenLimit: Int64 = 100

    /// The organization's service tokens, the newest first, revoked ones included; nil if there is no such
    /// organization.
    package func serviceTokens(of organization: UUID) async throws(Problem) -> [ServiceTokenRow]? {
        guard try await self.organization(organization) != nil else { return nil }
        return try await rows(Self.tokensStatement, Parameters(of: organization), "list service tokens") { row in
            try ServiceTokenRow(&row)
        }
    }

    /// Makes a service token for a source of events.
    ///
    /// - Returns: the token, whose secret is kept nowhere else, with its row; nil if there is no such organization.
    /// - Throws: `validation_failed` for a source that is not well-formed, and if there are too many.
    package func makeServiceToken(
        for source: String,
        of organization: UUID
    ) async throws(Problem) -> (token: ServiceToken, row: ServiceTokenRow)? {
        guard IngestSource.isValid(source) else {
            let detail = "source must match [a-z][a-z0-9_-]{0,63}"
            throw Problem(.validationFailed, pointer: "/source", rule: Rule.range, detail)
        }
        guard let known = try await serviceTokens(of: organization) else { return nil }
        guard known.filter({ $0.revokedAt == nil }).count < Self.serviceTokenLimit else {
            let detail = "the organization has \(Self.serviceTokenLimit) service tokens; revoke one first"
            throw Problem(.validationFailed, pointer: "", rule: Rule.range, detail)
        }
        let moment = now()
        let token = ServiceToken(organization: organization, id: UUIDv7Generator().make(at: moment))
        let parameters = Parameters(
            of: organization,
            token.id,
            source,
            BytesParameter.bytea(token.secretHash),
            moment
        )
        let rows = try await rows(Self.makeTokenStatement, parameters, "make a service token") { row in
            try ServiceTokenRow(&row)
        }
        _ = try await run(
            Self.forgetTokensStatement,
            Parameters(of: organization, Self.revokedTokenLimit),
            "forget old service tokens"
        )
        catalog.invalidate(organization)
        return rows.first.map { (token, $0) }
    }

    /// Revokes a service token: this gateway refuses it immediately, other gateways within five seconds.
    ///
    /// - Returns: its row; nil if there is no such token.
    package func revokeServiceToken(_ id: UUID, of organization: UUID) async throws(Problem) -> ServiceTokenRow? {
        let parameters = Parameters(of: organization, id, now())
        let rows = try await rows(Self.revokeTokenStatement, parameters, "revoke a service token") { row in
            try ServiceTokenRow(&row)
        }
        store.serviceTokens.invalidate(id, of: organization)
        catalog.invalidate(organization)
        return rows.first
    }

    static let tokensStatement = Statement(
        "admin_service_tokens",
        ["organization"],
        """
        SELECT \(ServiceTokenRow.list) FROM service_tokens t
        WHERE t.organization_id = :organization
        ORDER BY t.id DESC
        """
    )

    /// Locks the organization's row: a purged one accepts no new rows.
    static let makeTokenStatement = Statement(
        "admin_make_service_token",
        ["organization", "id", "source", "secret_hash", "now"],
        """
        INSERT INTO service_tokens AS t (organization_id, id, source, secret_hash, created_at)
        SELECT :organization::uuid, :id::uuid, :source::text, :secret_hash::bytea, :now::timestamptz
        WHERE (SELECT o.status FROM organizations o WHERE o.id = :organization FOR SHARE) <> 'purging'
        RETURNING \(ServiceTokenRow.list)
        """
    )

    static let revokeTokenStatement = Statement(
        "admin_revoke_service_token",
        ["organization", "id", "now"],
        """
        UPDATE service_tokens AS t SET revoked_at = coalesce(t.revoked_at, :now)
        WHERE t.organization_id = :organization AND t.id = :id
        RETURNING \(ServiceTokenRow.list)
        """
    )

    static let forgetTokensStatement = Statement(
        "admin_forget_service_tokens",
        ["organization", "limit"],
        """
        DELETE FROM service_tokens WHERE organization_id = :organization AND id IN (
            SELECT x.id FROM service_tokens x
            WHERE x.organization_id = :organization AND x.revoked_at IS NOT NULL
            ORDER BY x.revoked_at DESC
            OFFSET :limit)
        """
    )

    static let tokenStatements = [
        tokensStatement, makeTokenStatement, revokeTokenStatement, forgetTokensStatement,
    ]
}
