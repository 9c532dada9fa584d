package import Foundation
import Postgres
package import SyncModel

/// Evaluates the templates of a type for entities that were written before the type had them.
///
/// It works step by step, in the order of ids. A step is one transaction, and a run that was interrupted can start over:
/// entities whose channels are up to date are not written again.
package struct ChannelEvaluation: Sendable {
    /// The result of one step.
    package struct Step: Sendable {
        package let examined: Int
        package let written: Int
        /// The last id of the step; nil at the end.
        package let next: String?
    }

    private static let limit = 200

    let pool: Pool
    let catalog: Catalog
    let notifier: ChangeNotifier
    let now: TimeSource
    let failure: StoreFailure

    /// Evaluates the entities behind an id.
    ///
    /// - Returns: nil if the organization has no such type with channels.
    package func step(of type: String, in organization: UUID, after last: String) async throws(Problem) -> Step? {
        guard let rules = try await catalog.entry(organization).types[type]?.channelRules else { return nil }
        do {
            let step = try await catalog.opening(organization) { seal in
                try await run(type, rules, organization, SealTable([organization: seal]), after: last)
            }
            if step.written > 0 { notifier.changed(organization) }
            return step
        } catch {
            throw failure.problem(error, doing: "evaluate channels")
        }
    }

    private func run(
        _ type: String,
        _ rules: ChannelRules,
        _ organization: UUID,
        _ seals: SealTable,
        after last: String
    ) async throws -> Step {
        let moment = now()
        return try await pool.transaction { connection in
            let page = Self.page(organization: organization, type: type, after: last, limit: Int64(Self.limit))
            let ids = try await connection.runByIndex(page).read { try $0.read("id", as: String.self) }
            guard let end = ids.last else { return Step(examined: 0, written: 0, next: nil) }
            let keys = ids.map { (organization, EntityKey(type: type, id: $0)) as EntityRows.Key }
            var tables: [UUID: EntityTable] = [:]
            try EntityRows.load(await connection.runByIndex(EntityRows.lock(keys)), into: &tables, seals)
            var writes: [(key: EntityKey, state: EntityState)] = []
            for (_, key) in keys {
                guard let state = tables[organization]?[key], !state.isDeleted, !state.isUnreadable else { continue }
                let placed = state.placed(by: rules, key)
                if placed.channels != state.stored?.channels || placed.grants != nil { writes.append((key, placed)) }
            }
            if !writes.isEmpty {
                let changes: [EntityRows.Writes] = [(organization, writes)]
                _ = try await connection.run(
                    [EntityRows.raiseFeeds(changes)] + (try EntityRows.write(changes, now: moment, seals))
                )
            }
            return Step(examined: ids.count, written: writes.count, next: ids.count < Self.limit ? nil : end)
        }
    }

    private static let page = Statement(
        "channels_evaluation_page",
        ["organization", "type", "after", "limit"],
        """
        SELECT e.id::text AS id FROM entities e
        WHERE e.organization_id = :organization AND e.entity_type = :type AND e.id > :after::text
        ORDER BY e.id LIMIT :limit
        """
    )

    static let statements = [page]
}
