package import FoundationEssentials
import Postgres
package import SyncModel

/// Computes the result that a push would have now.
///
/// It reads the same data as a push and decides in the same way, in a transaction that can neither write nor lock.
/// Therefore it creates no lane and never waits for a lane.
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
            makeID: { _ in UUID() }
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
        let (snapshot, entities) = try await read(input)
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

    private func read(_ input: PushInput) async throws(Problem) -> (PushSnapshot, EntityTable) {
        do {
            return try await catalog.opening(input.lane.organization) { seal in
                let seals = SealTable([input.lane.organization: seal])
                let reader = GroupReader(
                    [input],
                    hints: nil,
                    deviceLimit: deviceLimit,
                    seals: seals,
                    documentBytes: WorkBounds.preview,
                    access: .looking
                )
                return try await read(reader, input, seals)
            }
        } catch {
            throw failure.problem(error, doing: "preview a push")
        }
    }

    private func read(
        _ reader: GroupReader,
        _ input: PushInput,
        _ seals: SealTable
    ) async throws -> (PushSnapshot, EntityTable) {
        return try await pool.withConnection { connection in
            var snapshot = try reader.snapshot(await connection.run(reader.queries))
            try await LocalIDReader([input]).readAssigned(
                &snapshot,
                .looking,
                seals,
                documentBytes: WorkBounds.preview,
                on: connection
            )
            try await reader.referrers(snapshot).read(into: &snapshot.entities, on: connection)
            let comparisons = reader.comparisons(&snapshot)
            let organization = Parameters(of: input.lane.organization)
            let last = [Query(PullStatements.organization, organization), .rollback]
            let results = try await connection.run(comparisons.map(\.query) + last)
            try reader.add(results, of: comparisons, to: &snapshot)
            // a new user's push creates the lane, in an active organization only
            let status = try results[comparisons.count].read { try $0.read("status", as: String.self) }.first
            guard snapshot.hasLane[0] || status == OrganizationStatus.active.rawValue else {
                throw Problem(.organizationUnknown, "the organization does not accept pushes")
            }
            return (snapshot.pushes[0], snapshot.entities[input.lane.organization] ?? EntityTable())
        }
    }
}
