package import FoundationEssentials
import Postgres
package import SyncModel

/// Computes the result that a push would have now.
///
/// A preview reads the same data as a push and decides in the same way, in a transaction that can neither write nor
/// lock. Therefore it creates no lane and never waits for a lane. It reads only documents that the user may see.
/// Otherwise the duration of a preview would show whether an id is unknown or hidden.
package struct PushPreviewer: Sendable {
    let pool: Pool
    let catalog: Catalog
    let now: TimeSource
    let failure: StoreFailure
    /// The maximum number of a user's devices.
    let deviceLimit: Int

    /// - Throws: the problem that would refuse the whole push; `overloaded` and `store_unavailable` with `retryAfter`.
    package func preview(
        _ push: PushRequest,
        organization: Organization,
        user: UUID,
        isStrict: Bool
    ) async throws(Problem) -> PushPreview {
        let entry = try await catalog.entry(organization.id)
        var context = PushPlanner.Context(
            organization: organization,
            types: entry.types,
            user: user,
            isStrict: isStrict,
            now: now(),
            makeID: { UUID() }
        )
        context.deviceLimit = deviceLimit
        context.documentBytes = WorkBounds.preview
        context.mergedBytes = WorkBounds.preview * 4
        context.readsForwarded = true
        let types = context.types
        let input = PushInput(
            push: push,
            lane: LaneKey(organization: organization.id, user: user),
            quota: organization.settings.mutationQuota,
            localIDs: PushLocalIDs(push) { types[$0] },
            relations: entry.relations,
            channelRules: entry.channelRules
        )
        let named = push.entries.compactMap(\.mutation).compactMap { types[$0.entity.type] }
        let isOpen = named.allSatisfy { $0.visibility == .organization } || named.contains(where: \.makesGrants)
        let (snapshot, entities) = try await read(input, types, readsHidden: isOpen)
        do throws(PushRefusal) {
            return try PreviewPlanner.preview(push, snapshot: snapshot, context: context, entities: entities)
        } catch {
            switch error {
            case .problem(let problem): throw problem
            case .requiresOwnBatch, .isCrowded:
                throw Problem(.payloadTooLarge, "the documents of this push are too large to preview; preview fewer")
            case .needsProbe: throw Problem(.internalError, "the push could not be previewed")
            }
        }
    }

    /// - Parameter readsHidden: whether to read documents that the user may not see.
    private func read(
        _ input: PushInput,
        _ types: [ByteExactString: EntityType],
        readsHidden: Bool
    ) async throws(Problem) -> (PushSnapshot, EntityTable) {
        do {
            return try await catalog.opening(input.lane.organization) { seal in
                let seals = SealTable([input.lane.organization: seal])
                let reader = GroupReader(
                    [input],
                    hints: nil,
                    deviceLimit: deviceLimit,
                    seals: seals,
                    documentBytes: WorkBounds.preview,
                    namedBytes: readsHidden ? nil : 0,
                    access: .looking
                )
                return try await read(reader, input, seals, types, readsHidden: readsHidden)
            }
        } catch {
            throw failure.problem(error, doing: "preview a push")
        }
    }

    private func read(
        _ reader: GroupReader,
        _ input: PushInput,
        _ seals: SealTable,
        _ types: [ByteExactString: EntityType],
        readsHidden: Bool
    ) async throws -> (PushSnapshot, EntityTable) {
        return try await pool.withConnection { connection in
            var snapshot = try reader.snapshot(await connection.run(reader.queries))
            try await LocalIDReader([input]).readAssigned(
                &snapshot,
                .looking,
                seals,
                documentBytes: readsHidden ? WorkBounds.preview : 0,
                on: connection
            )
            if !readsHidden { try await readVisible(input.lane, types, seals, into: &snapshot, on: connection) }
            try await reader.referrers(snapshot).read(into: &snapshot.entities, on: connection)
            let comparisons = reader.comparisons(&snapshot)
            let organization = Parameters(of: input.lane.organization)
            let last = [Query(PullStatements.organization, organization), .rollback]
            let results = try await connection.run(comparisons.map(\.query) + last)
            try reader.add(results, of: comparisons, to: &snapshot)
            // the push of a new user creates the lane, but only in an active organization
            let status = try results[comparisons.count].read { try $0.read("status", as: String.self) }.first
            guard snapshot.hasLane[0] || status == OrganizationStatus.active.rawValue else {
                throw Problem(.organizationUnknown, "the organization does not accept pushes")
            }
            return (snapshot.pushes[0], snapshot.entities[input.lane.organization] ?? EntityTable())
        }
    }

    /// Reads the documents that the user may see.
    private func readVisible(
        _ lane: LaneKey,
        _ types: [ByteExactString: EntityType],
        _ seals: SealTable,
        into snapshot: inout GroupSnapshot,
        on connection: Connection
    ) async throws {
        let entities = snapshot.entities[lane.organization] ?? EntityTable()
        let keys = entities.unread { key, state in
            let visibility = types[key.type]?.visibility ?? .organization
            // templates that were not evaluated yet give no channels without a document
            return visibility == .channels && state.stored?.channels == nil
                || state.mayBeSeen(by: lane.user, visibility, entities.access)
        }
        guard !keys.isEmpty else { return }
        let query = EntityRows.query(
            .looking,
            keys.map { (lane.organization, $0) },
            documentBytes: WorkBounds.preview
        )
        let rows = try await connection.run([query])[0]
        try EntityRows.loadBounded(rows, into: &snapshot.entities, seals)
    }
}
