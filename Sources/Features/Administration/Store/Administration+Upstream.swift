package import Foundation
package import Postgres
package import SyncModel
import SyncStore

extension Administration {
    /// Returns an organization's upstream, or nil if it has no upstream.
    package func upstream(of organization: UUID) async throws(Problem) -> UpstreamRow? {
        let key = Parameters(of: organization)
        do {
            return try await catalog.opening(organization) { [key] seal in
                let rows = try await pool.run([Query(Self.getUpstreamStatement, key)])[0]
                return try rows.read { try UpstreamRow(&$0, seal) }.first
            }
        } catch {
            throw failure.problem(error, doing: "read an upstream")
        }
    }

    /// Creates or changes an organization's upstream. Nil if there is no such organization.
    ///
    /// - Throws: `validation_failed` with a pointer.
    package func putUpstream(
        of organization: UUID,
        _ update: UpstreamUpdate
    ) async throws(Problem) -> (isNew: Bool, value: UpstreamRow)? {
        let moment = now()
        let key = Parameters(of: organization)
        do {
            let written = try await catalog.opening(organization) { [key] seal in
                try await pool.transaction { connection -> (Bool, UpstreamSettings)? in
                    let found = try await connection.run([
                        Query(Administration.lockUpstreamStatement, key), Query(Self.getUpstreamStatement, key),
                    ])
                    guard found[0].count > 0 else { return nil }
                    let current = try found[1].read { try UpstreamSettingsRow.read(&$0, seal) }.first
                    let settings = try update.applied(to: current)
                    let row = try Self.row(settings, of: organization, at: moment, seal)
                    _ = try await connection.run(Query(Self.putUpstreamStatement, row))
                    return (current == nil, settings)
                }
            }
            catalog.invalidate(organization)
            return written.map { isNew, settings in (isNew, UpstreamRow(settings, updatedAt: moment)) }
        } catch {
            throw failure.problem(error, doing: "write an upstream")
        }
    }

    /// Deletes an organization's upstream; returns false if it has no upstream. Forwarded types stay forwarded.
    package func deleteUpstream(of organization: UUID) async throws(Problem) -> Bool {
        let key = Parameters(of: organization)
        let rows = try await run(Self.deleteUpstreamStatement, key, "delete an upstream")
        catalog.invalidate(organization)
        return rows.affected > 0
    }

    private static func row(
        _ settings: UpstreamSettings,
        of organization: UUID,
        at moment: Timestamp,
        _ seal: Seal
    ) throws(SealError) -> Parameters {
        let parameters = Parameters(
            of: organization,
            settings.baseURL,
            BytesParameter.json(try seal.seal(json: settings.credential?.stored, as: .upstream(.credential))),
            Int16(settings.timeoutSeconds),
            Int16(settings.maximumConcurrency),
            settings.idPointer,
            BytesParameter.json(try seal.seal(json: settings.storedHeaders, as: .upstream(.headers))),
            settings.allowedHeaders,
            settings.eraseEndpoint,
            settings.sendsWeakETags,
            moment
        )
        return parameters
    }

    // MARK: - Statements

    static let getUpstreamStatement = Statement(
        "upstreams_get",
        ["organization"],
        """
        SELECT \(UpstreamSettingsRow.list), updated_at FROM upstreams WHERE organization_id = :organization
        """
    )

    static let putUpstreamStatement = Statement(
        "upstreams_put",
        [
            "organization", "base_url", "credential", "timeout_seconds", "max_concurrency", "id_pointer", "headers",
            "allowed_headers", "erase_endpoint", "send_weak_etags", "now",
        ],
        """
        INSERT INTO upstreams AS u (
            organization_id, base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers,
            allowed_headers, erase_endpoint, send_weak_etags, updated_at)
        VALUES (:organization, :base_url, :credential, :timeout_seconds, :max_concurrency, :id_pointer, :headers, :allowed_headers, :erase_endpoint, :send_weak_etags, :now)
        ON CONFLICT (organization_id) DO UPDATE
        SET base_url = excluded.base_url, credential = excluded.credential,
            timeout_seconds = excluded.timeout_seconds, max_concurrency = excluded.max_concurrency,
            id_pointer = excluded.id_pointer, headers = excluded.headers,
            allowed_headers = excluded.allowed_headers, erase_endpoint = excluded.erase_endpoint,
            send_weak_etags = excluded.send_weak_etags, updated_at = excluded.updated_at
        """
    )

    static let deleteUpstreamStatement = Statement(
        "upstreams_delete",
        ["organization"],
        "DELETE FROM upstreams WHERE organization_id = :organization"
    )

    package static let upstreamStatements = [
        getUpstreamStatement, putUpstreamStatement, deleteUpstreamStatement,
    ]
}
