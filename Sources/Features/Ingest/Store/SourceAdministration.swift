package import FoundationEssentials
import Postgres
import StandardWebhooks
package import SyncModel
package import SyncStore

/// The operators' actions on an organization's sources.
package struct SourceAdministration: Sendable {
    /// The maximum number of sources in an organization.
    package static let maximumSources = 20

    let pool: Pool
    let catalog: Catalog
    let receivers: SourceReceivers
    let now: TimeSource
    let failure: StoreFailure

    /// Returns an organization's sources, sorted by name; nil if there is no such organization.
    package func list(in organization: UUID) async throws(Problem) -> [SourceRow]? {
        do {
            let results = try await pool.run([
                Administration.isThereStatement(organization: organization),
                SourceAdminStatements.list(organization: organization, now: now()),
            ])
            return results[0].count == 0 ? nil : try results[1].read(SourceRow.init)
        } catch {
            throw failure.problem(error, doing: "list sources")
        }
    }

    package func source(_ key: SourceKey) async throws(Problem) -> SourceRow? {
        try await rows(Query(SourceAdminStatements.get, Self.parameters(key, now())), "read a source")
    }

    /// Adds a source, or replaces a source's settings; returns nil if there is no such organization.
    ///
    /// - Parameter defaultSecret: the secret that a new source gets if the update has no secret.
    /// - Returns: the source's row, and whether the source is new.
    /// - Throws: `validation_failed` if the organization already has the maximum number of sources, if the existing
    ///   source has another kind, or if the secret does not fit the kind.
    package func put(
        _ key: SourceKey,
        _ update: SourceUpdate,
        defaultSecret: String? = nil
    ) async throws(Problem) -> (row: SourceRow, isNew: Bool)? {
        let moment = now()
        let kind = update.settings.kind
        do {
            let result: (row: SourceRow, isNew: Bool)? = try await catalog.opening(key.organization) { seal in
                try await pool.transaction { connection in
                    let found = try await connection.run([
                        Administration.lockUpstreamStatement(organization: key.organization),
                        SourceAdminStatements.list(organization: key.organization, now: moment),
                    ])
                    guard found[0].count > 0 else { return nil }
                    let known = try found[1].read(SourceRow.init)
                    let old = known.first { $0.name == key.name }
                    try Self.check(update, replacing: old, defaultSecret: defaultSecret, existingCount: known.count)
                    let secret = update.secret ?? (old == nil ? defaultSecret : nil)
                    let sealed = try seal.seal(text: secret, as: .source(.secret, key.name))
                    let nextRunAt = update.isEnabled && kind.isWorkedOn ? moment : nil
                    var parameters = Self.parameters(key, moment)
                    if old == nil { parameters.add(kind.rawValue) }
                    parameters.add(update.isEnabled ? "enabled" : "disabled")
                    parameters.add(PostgresJSON(update.settings.json))
                    parameters.add(sealed)
                    parameters.add(nextRunAt)
                    let statement = old == nil ? SourceAdminStatements.add : SourceAdminStatements.change
                    let row = try await connection.run(Query(statement, parameters)).read(SourceRow.init).first
                    return row.map { ($0, old == nil) }
                }
            }
            forget(key)
            return result
        } catch {
            throw failure.problem(error, doing: "write a source")
        }
    }

    private static func check(
        _ update: SourceUpdate,
        replacing old: SourceRow?,
        defaultSecret: String?,
        existingCount count: Int
    ) throws(Problem) {
        let kind = update.settings.kind
        if let old, old.kind != kind {
            let detail =
                "the kind of the source is \(old.kind.rawValue), which cannot be changed; delete the source to "
                + "create another"
            throw Problem(.validationFailed, pointer: "/kind", rule: Rule.range, detail)
        }
        if old == nil, count >= maximumSources {
            let detail = "an organization has at most \(maximumSources) sources; delete one first"
            throw Problem(.validationFailed, pointer: "", rule: Rule.range, detail)
        }
        let mayKeep = update.secret == nil && (old?.hasSecret ?? (defaultSecret != nil))
        if !mayKeep, let detail = SourceSettings.problem(ofSecret: update.secret, for: kind) {
            let rule = update.secret == nil ? Rule.required : Rule.range
            throw Problem(.validationFailed, pointer: "/secret", rule: rule, detail)
        }
    }

    /// Replaces a source's secret; returns nil if there is no such source.
    ///
    /// - Parameter overlap: the seconds for which the previous secret is also accepted. With 0, the previous secret
    ///   becomes invalid immediately.
    package func rotate(
        _ key: SourceKey,
        to secret: String,
        overlap: Double
    ) async throws(Problem) -> SourceRow? {
        let moment = now()
        do {
            let row: SourceRow? = try await catalog.opening(key.organization) { seal in
                try await pool.transaction { connection in
                    let locked = try await connection.run([
                        Administration.lockUpstreamStatement(organization: key.organization),
                        SourceAdminStatements.lockSecret(organization: key.organization, name: key.name),
                    ])
                    guard locked[0].count > 0, var row = locked[1].first else { return nil }
                    let old = try seal.open(text: row.read("secret"), as: .source(.secret, key.name))
                    let overlaps = overlap > 0 && old != nil
                    return try await connection.run(
                        SourceAdminStatements.rotate(
                            organization: key.organization,
                            name: key.name,
                            now: moment,
                            secret: try seal.seal(text: secret, as: .source(.secret, key.name)),
                            previous_secret: overlaps
                                ? try seal.seal(text: old, as: .source(.previousSecret, key.name)) : nil,
                            previous_until: overlaps ? moment.adding(seconds: overlap) : nil
                        )
                    )
                    .read(SourceRow.init).first
                }
            }
            forget(key)
            return row
        } catch {
            throw failure.problem(error, doing: "rotate a source's secret")
        }
    }

    /// Where a run begins.
    package enum Beginning: Sendable, Hashable {
        /// The run continues where the previous run ended.
        case continuing
        /// The run reads all data from the beginning.
        case anew
        /// The run begins at a place, which has the form that the kind of source defines.
        case at([UInt8])
    }

    /// Schedules an immediate run of a source. If a worker already has the source, that worker stops and a new run
    /// begins.
    ///
    /// Returns nil if there is no such source, if the source is disabled, or if its kind only receives messages.
    package func run(_ key: SourceKey, from beginning: Beginning) async throws(Problem) -> SourceRow? {
        var parameters = Self.parameters(key, now())
        switch beginning {
        case .continuing:
            parameters.add(false)
            parameters.add(PostgresJSON<[UInt8]>(nil))
        case .anew:
            parameters.add(true)
            parameters.add(PostgresJSON<[UInt8]>(nil))
        case .at(let state):
            parameters.add(true)
            parameters.add(PostgresJSON(state))
        }
        return try await rows(Query(SourceAdminStatements.run, parameters), "run a source")
    }

    /// Returns the reason why an existing source cannot be run.
    package static func cannotRun(_ source: SourceRow) -> Problem {
        let reason =
            source.kind.isWorkedOn
            ? "the source is disabled; enable it first" : "a webhook source only receives messages; nothing is fetched"
        return Problem(.statusTransitionMustBeValid, reason)
    }

    /// Deletes a source; returns false if there is no such source. The effects and ids of the source's events stay.
    package func delete(_ key: SourceKey) async throws(Problem) -> Bool {
        let query = SourceAdminStatements.delete(organization: key.organization, name: key.name)
        let isFound = try await failure.reporting("delete a source") {
            try await pool.run([query])[0].affected > 0
        }
        forget(key)
        return isFound
    }

    private func forget(_ key: SourceKey) {
        receivers.invalidate(key)
        catalog.invalidate(key.organization)
    }

    private func rows(_ query: Query, _ what: StaticString) async throws(Problem) -> SourceRow? {
        try await failure.reporting(what) {
            try await pool.run([query])[0].read(SourceRow.init).first
        }
    }

    private static func parameters(_ key: SourceKey, _ moment: Timestamp) -> Parameters {
        Parameters(of: key.organization, key.name, moment)
    }
}

/// An operator's complete description of a source.
package struct SourceUpdate: Sendable, Hashable {
    package let settings: SourceSettings
    package let isEnabled: Bool
    /// The secret; nil if the secret stays unchanged.
    @Exact package private(set) var secret: String?

    package init(settings: SourceSettings, isEnabled: Bool = true, secret: String? = nil) {
        self.settings = settings
        self.isEnabled = isEnabled
        self.secret = secret
    }

    /// Returns a new secret if this is a webhook source without a secret; otherwise nil.
    func generatedSecret() -> String? { settings.kind == .webhook && secret == nil ? WebhookSecret().text : nil }
}

/// A source of kind `postgres`, as a restored database contains it.
package struct RestoredSource: Sendable, Hashable {
    package let key: SourceKey
    package let isEnabled: Bool
    /// The restored position; nil if the backup contains no position.
    package let confirmed: String?
}

extension Administration {
    /// Returns the sources of kind `postgres`. The slot of each source is probably ahead of the restored position.
    package func restoredSources() async throws(Problem) -> [RestoredSource] {
        try await rows(Self.sourcesStatement, Parameters(), "list restored sources") { row in
            let key = SourceKey(organization: try row.read("organization_id"), name: try row.read("name"))
            let isEnabled = try row.read("status", as: String.self) == "enabled"
            let state = try row.read("state", as: [UInt8]?.self).flatMap { ReplicationState($0) }
            return RestoredSource(key: key, isEnabled: isEnabled, confirmed: state?.confirmed)
        }
    }

    /// Selects the sources that read a slot. A slot no longer returns changes that were confirmed after the backup.
    static let sourcesStatement = Statement(
        "restore_sources",
        """
        SELECT s.organization_id, s.name, s.status, s.state FROM sources s
        WHERE s.kind = 'postgres' ORDER BY s.organization_id, s.name
        """
    )
}
