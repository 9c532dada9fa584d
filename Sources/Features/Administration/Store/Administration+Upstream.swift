package import FoundationEssentials
import JSONText
package import Postgres
package import SyncModel
package import SyncStore

extension Administration {
    /// Returns an organization's upstream, or nil if it has no upstream.
    package func upstream(of organization: UUID) async throws(Problem) -> UpstreamRow? {
        let key = Parameters(of: organization)
        do {
            return try await catalog.opening(organization) { [key] seal in
                let rows = try await pool.run([Query(Self.getUpstreamStatement, key)])[0]
                return try rows.read { try UpstreamRow(&$0, seal, now: now()) }.first
            }
        } catch {
            throw failure.problem(error, doing: "read an upstream")
        }
    }

    /// Creates or changes an organization's upstream. Returns nil if the organization does not exist.
    ///
    /// - Throws: `validation_failed` with a pointer.
    package func putUpstream(
        of organization: UUID,
        _ update: UpstreamUpdate
    ) async throws(Problem) -> (isNew: Bool, value: UpstreamRow)? {
        let moment = now()
        let key = Parameters(of: organization)
        if case .set(.some) = update.batch { try await checkOrder(of: organization) }
        do {
            let written = try await catalog.opening(organization) { [key] seal in
                try await pool.transaction { connection -> (Bool, UpstreamSettings)? in
                    let found = try await connection.run([
                        Query(Administration.lockUpstreamStatement, key), Query(Self.getUpstreamStatement, key),
                    ])
                    guard found[0].count > 0 else { return nil }
                    let current = try found[1].read { try UpstreamSettingsRow.read(&$0, seal) }.first
                    let settings = try update.applied(to: current, now: moment)
                    let row = try Self.row(settings, of: organization, at: moment, seal)
                    _ = try await connection.run(Query(Self.putUpstreamStatement, row))
                    return (current == nil, settings)
                }
            }
            catalog.invalidate(organization)
            // from here on, no step can make the request fail, because the change is stored
            if let written, written.1.pause == nil {
                backOffRequests.add(BackoffPass(of: organization, changedAt: moment))
            }
            return written.map { isNew, settings in (isNew, UpstreamRow(settings)) }
        } catch {
            throw failure.problem(error, doing: "write an upstream")
        }
    }

    /// Refuses batches if the organization's mutations run one at a time.
    private func checkOrder(of organization: UUID) async throws(Problem) {
        catalog.invalidate(organization)
        guard try await catalog.organization(organization)?.settings.order == .lane else { return }
        let detail = "batches need the organization's setting `order` with the value \"dependencies\"; change it first"
        throw Problem(.validationFailed, pointer: "/batch", rule: Rule.range, detail)
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
            PostgresJSON(try seal.seal(json: settings.credential?.stored, as: .upstream(.credential))),
            Int16(settings.timeoutSeconds),
            Int16(settings.maximumConcurrency),
            settings.idPointer,
            PostgresJSON(try seal.seal(json: settings.storedHeaders, as: .upstream(.headers))),
            settings.allowedHeaders,
            settings.eraseEndpoint,
            settings.sendsWeakETags,
            PostgresJSONB(settings.outcomes.json),
            settings.pause != nil,
            settings.pause?.until,
            settings.requestsPerSecond.map { Int32($0) },
            PostgresJSONB(settings.batch?.json),
            moment
        )
        return parameters
    }

    // MARK: - Statements

    static let getUpstreamStatement = Statement(
        "upstreams_get",
        ["organization"],
        """
        SELECT \(UpstreamSettingsRow.list) FROM upstreams WHERE organization_id = :organization
        """
    )

    static let putUpstreamStatement = Statement(
        "upstreams_put",
        [
            "organization", "base_url", "credential", "timeout_seconds", "max_concurrency", "id_pointer", "headers",
            "allowed_headers", "erase_endpoint", "send_weak_etags", "outcomes", "is_paused", "paused_until",
            "requests_per_second", "batch", "now",
        ],
        """
        INSERT INTO upstreams AS u (
            organization_id, base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers,
            allowed_headers, erase_endpoint, send_weak_etags, outcomes, is_paused, paused_until,
            requests_per_second, batch, updated_at)
        VALUES (:organization, :base_url, :credential, :timeout_seconds, :max_concurrency, :id_pointer, :headers, :allowed_headers, :erase_endpoint, :send_weak_etags, :outcomes, :is_paused, :paused_until, :requests_per_second, :batch, :now)
        ON CONFLICT (organization_id) DO UPDATE
        SET base_url = excluded.base_url, credential = excluded.credential,
            timeout_seconds = excluded.timeout_seconds, max_concurrency = excluded.max_concurrency,
            id_pointer = excluded.id_pointer, headers = excluded.headers,
            allowed_headers = excluded.allowed_headers, erase_endpoint = excluded.erase_endpoint,
            send_weak_etags = excluded.send_weak_etags, outcomes = excluded.outcomes, is_paused = excluded.is_paused,
            paused_until = excluded.paused_until, requests_per_second = excluded.requests_per_second,
            batch = excluded.batch, updated_at = excluded.updated_at
        """
    )

    static let deleteUpstreamStatement = Statement(
        "upstreams_delete",
        ["organization"],
        "DELETE FROM upstreams WHERE organization_id = :organization"
    )

    package static let upstreamStatements =
        [
            getUpstreamStatement, putUpstreamStatement, deleteUpstreamStatement,
        ] + backOffStatements
}

/// An upstream as it is stored.
package struct UpstreamRow: Sendable {
    /// The settings, without a pause that has ended.
    package let settings: UpstreamSettings

    init(_ settings: UpstreamSettings) {
        self.settings = settings
    }

    /// Reads the columns of ``UpstreamSettingsRow``.
    init(_ row: inout RowReader, _ seal: Seal, now: Timestamp) throws {
        settings = try UpstreamSettingsRow.read(&row, seal).withoutEndedPause(at: now)
    }
}

/// Changes an organization's upstream, or describes a new one.
package struct UpstreamUpdate: Sendable {
    /// The normalized URL; nil if it stays unchanged.
    package var baseURL: String?
    package var credential: Change<UpstreamCredential?> = .keep
    package var timeoutSeconds: Change<Int> = .keep
    package var maximumConcurrency: Change<Int> = .keep
    package var idPointer: Change<String> = .keep
    package var headers: Change<[ByteExactString: String]> = .keep
    package var allowedHeaders: Change<[String]> = .keep
    package var eraseEndpoint: Change<String?> = .keep
    package var sendsWeakETags: Change<Bool> = .keep
    package var outcomes: Change<OutcomeRules> = .keep
    package var requestsPerSecond: Change<Int64?> = .keep
    package var batch: Change<UpstreamBatch?> = .keep
    package var isPaused: Change<Bool> = .keep
    package var pausedUntil: Change<Timestamp?> = .keep

    package init(baseURL: String? = nil) {
        self.baseURL = baseURL
    }

    /// Returns the settings after the change.
    ///
    /// - Parameter current: the settings before the change; nil if there is no upstream yet.
    func applied(to current: UpstreamSettings?, now: Timestamp) throws(Problem) -> UpstreamSettings {
        guard let baseURL = baseURL ?? current?.baseURL else {
            let detail = "base_url is required: the organization has no upstream yet"
            throw Problem(.validationFailed, pointer: "/base_url", rule: Rule.required, detail)
        }
        let initial = UpstreamSettings(baseURL: baseURL)
        var settings = current?.withoutEndedPause(at: now) ?? initial
        settings.baseURL = baseURL
        credential.apply(to: &settings.credential, default: initial.credential)
        timeoutSeconds.apply(to: &settings.timeoutSeconds, default: initial.timeoutSeconds)
        maximumConcurrency.apply(to: &settings.maximumConcurrency, default: initial.maximumConcurrency)
        idPointer.apply(to: &settings.idPointer, default: initial.idPointer)
        headers.apply(to: &settings.headers, default: initial.headers)
        eraseEndpoint.apply(to: &settings.eraseEndpoint, default: initial.eraseEndpoint)
        sendsWeakETags.apply(to: &settings.sendsWeakETags, default: initial.sendsWeakETags)
        allowedHeaders.apply(to: &settings.allowedHeaders, default: initial.allowedHeaders)
        outcomes.apply(to: &settings.outcomes, default: initial.outcomes)
        requestsPerSecond.apply(to: &settings.requestsPerSecond, default: initial.requestsPerSecond)
        batch.apply(to: &settings.batch, default: initial.batch)
        settings.pause = try pause(after: settings.pause, now: now)
        settings.changedAt = now
        if case .header(let name, _) = settings.credential { try Self.checkUnique(name, in: settings) }
        return settings
    }

    /// Returns the pause after the change. Setting the end of a pause also begins a pause.
    private func pause(after current: UpstreamPause?, now: Timestamp) throws(Problem) -> UpstreamPause? {
        var pause = current
        switch isPaused {
        case .keep: break
        case .reset, .set(false): pause = nil
        case .set(true): pause = current ?? UpstreamPause()
        }
        switch pausedUntil {
        case .keep: break
        case .reset, .set(nil): pause?.until = nil
        case .set(let until?):
            if case .set(false) = isPaused {
                let detail = "an active upstream has no paused_until; omit it, or set status to paused"
                throw Problem(.validationFailed, pointer: "/paused_until", rule: Rule.range, detail)
            }
            guard until > now else {
                throw Problem(
                    .validationFailed,
                    pointer: "/paused_until",
                    rule: Rule.range,
                    "paused_until is in the past"
                )
            }
            pause = UpstreamPause(until: until)
        }
        return pause
    }

    /// Refuses other settings that use the header of the credential, in any spelling.
    ///
    /// Neither the operator's other settings nor a mutation may set this header.
    private static func checkUnique(_ credential: String, in settings: UpstreamSettings) throws(Problem) {
        let folded = UpstreamRequest.foldedHeader(credential)
        let isIt = { (name: String) in UpstreamRequest.foldedHeader(name) == folded }
        let detail = "\(credential) contains the credential; set it in one place only"
        if let name = settings.headers.keys.lazy.map(\.string).first(where: isIt) {
            let pointer = JSONPointer("/headers").appending(member: name).text
            throw Problem(.validationFailed, pointer: pointer, rule: Rule.header, detail)
        }
        if settings.allowedHeaders.contains(where: isIt) {
            throw Problem(.validationFailed, pointer: "/allowed_headers", rule: Rule.header, detail)
        }
    }
}
