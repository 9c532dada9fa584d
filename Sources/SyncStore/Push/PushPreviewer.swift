package import FoundationEssentials
import Postgres
package import SyncModel

/// Computes the result that a push would have now.
///
/// A preview reads the same data as a push and decides in the same way, in a transaction that can neither write nor
/// lock. Therefore it creates no lane and never waits for a lane. It reads only documents that the user may see. If it
/// read hidden documents, its duration would show whether an id is unknown or hidden.
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
        return try await preview(input, context)
    }

    private func preview(_ input: PushInput, _ context: PushPlanner.Context) async throws(Problem) -> PushPreview {
        do {
            return try await catalog.opening(input.lane.organization) { seal in
                let reader = GroupReader(
                    [input],
                    hints: nil,
                    deviceLimit: deviceLimit,
                    seals: SealTable([input.lane.organization: seal]),
                    documentBytes: WorkBounds.preview,
                    namedBytes: GroupReader.dependsOnVisibility(input.push, context.types) ? 0 : nil,
                    access: .reading
                )
                return try await preview(reader, input, context)
            }
        } catch {
            throw failure.problem(error, doing: "preview a push")
        }
    }

    /// Reads the data of a push in one read-only transaction, and plans the push.
    ///
    /// The connection is returned before the plan is made, unless grants of the push may require further documents.
    private func preview(
        _ reader: GroupReader,
        _ input: PushInput,
        _ context: PushPlanner.Context
    ) async throws -> PushPreview {
        let mayGrant = input.push.entries.contains { entry in
            entry.mutation.flatMap { context.types[$0.entity.type] }?.makesGrants == true
        }
        let (snapshot, planned) = try await pool.withConnection { connection -> (GroupSnapshot, PushPreview?) in
            var snapshot = try reader.snapshot(await connection.run(reader.queries))
            try await LocalIDReader([input]).readAssigned(
                &snapshot,
                .reading,
                reader.seals,
                documentBytes: reader.namedBytes,
                on: connection
            )
            if reader.readsVisible {
                try await reader.readVisible(context.types, readsForwarded: true, into: &snapshot, on: connection)
            }
            try await reader.referrers(snapshot).read(into: &snapshot.entities, on: connection)
            let comparisons = reader.comparisons(&snapshot)
            let organization = Parameters(of: input.lane.organization)
            let last = [Query(PullStatements.organization, organization)] + (mayGrant ? [] : [.rollback])
            let results = try await connection.run(comparisons.map(\.query) + last)
            try reader.add(results, of: comparisons, to: &snapshot)
            // the push of a new user creates the lane, but only in an active organization
            let status = try results[comparisons.count].read { try $0.read("status", as: String.self) }.first
            guard snapshot.hasLane[0] || status == OrganizationStatus.active.rawValue else {
                throw Problem(.organizationUnknown, "the organization does not accept pushes")
            }
            guard mayGrant else { return (snapshot, nil) }
            for _ in 0...GroupReader.documentReads {
                switch try Self.plan(input, snapshot, context) {
                case .planned(let preview): return (snapshot, preview)
                case .needsDocuments(let keys): try await reader.read(keys, into: &snapshot, on: connection)
                }
            }
            throw Self.tooLarge
        }
        if let planned { return planned }
        guard case .planned(let preview) = try Self.plan(input, snapshot, context) else { throw Self.tooLarge }
        return preview
    }

    private enum Planned {
        case planned(PushPreview)
        case needsDocuments([EntityKey])
    }

    private static let tooLarge = Problem(
        .payloadTooLarge,
        "the documents of this push are too large to preview; preview fewer"
    )

    private static func plan(
        _ input: PushInput,
        _ snapshot: GroupSnapshot,
        _ context: PushPlanner.Context
    ) throws(Problem) -> Planned {
        do throws(PushRefusal) {
            return .planned(
                try PreviewPlanner.preview(
                    input.push,
                    snapshot: snapshot.pushes[0],
                    context: context,
                    entities: snapshot.entities[input.lane.organization] ?? EntityTable()
                )
            )
        } catch {
            switch error {
            case .problem(let problem): throw problem
            case .needsDocuments(let keys): return .needsDocuments(keys)
            case .requiresOwnBatch, .isCrowded: throw tooLarge
            case .needsProbe: throw Problem(.internalError, "the push could not be previewed")
            }
        }
    }
}
