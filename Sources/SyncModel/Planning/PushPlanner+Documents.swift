/// Bounds on the stored documents that the patches of a push are merged into.
///
/// A push is a few bytes while each of these may have a megabyte, so its size does not limit the work.
public enum DocumentBounds {
    /// Bytes that a push may merge into and be committed together with others.
    ///
    /// A document counts once for each patch.
    public static let light = 524_288
    /// Bytes of all documents that a push may patch.
    ///
    /// So many are written within a statement's time.
    public static let most = WorkBounds.pushDocuments
}

extension PushPlanner {
    /// Refuses work that is too large for its place, before anything is merged.
    static func checkPatchSize(
        _ accepted: [ValidatedMutation],
        _ entities: EntityTable,
        _ context: Context,
        by writer: Writer
    ) throws(PushRefusal) {
        // usually all of them together are small
        guard entities.hasUnread || entities.largestDocument * accepted.count > DocumentBounds.light else { return }
        var cost = WorkCost()
        var seen: Set<EntityKey> = []
        var isCrowded = false
        for mutation in accepted where !mutation.type.isForwarded || context.readsForwarded {
            guard let id = mutation.serverID else { continue }
            let key = EntityKey(type: mutation.mutation.entity.type, id: id.text)
            guard let state = entities[key] else { continue }
            let strategy = mutation.mutation.conflictResolution ?? context.organization.settings.conflictResolution
            // an update that other writers have passed ends in a conflict, regardless of what this push writes before
            // it
            let isPassed = state.run.verdict(on: mutation.mutation.baseVersion, from: writer) == .passed
            let isMerged = mutation.mutation.operation == .update && (!isPassed || strategy == .clientWins)
            if isMerged { cost.merged += state.documentBytes }
            guard seen.insert(key).inserted else { continue }
            cost.read += state.documentBytes
            if mutation.mutation.operation == .update { cost.written += state.documentBytes }
            if state.unreadBytes > 0 { isCrowded = true }
        }
        if context.isBatched, cost.merged > DocumentBounds.light { throw .requiresOwnBatch }
        try check(cost.written, "that this push patches", DocumentBounds.most)
        try check(cost.read, "to which this push refers", context.documentBytes)
        try check(cost.merged, "that this preview merges, counted once per patch,", context.mergedBytes)
        // its documents fit once it is read without the others
        if isCrowded { throw cost.read > DocumentBounds.light ? .requiresOwnBatch : .isCrowded }
    }

    private static func check(_ bytes: Int, _ which: String, _ most: Int) throws(PushRefusal) {
        guard bytes > most else { return }
        let detail = "the documents \(which) have \(bytes) bytes; at most \(most) are allowed"
        throw .problem(Problem(.payloadTooLarge, detail + "; send its mutations in several pushes"))
    }
}

extension ValidatedMutation {
    /// Of an entity that was there before the push.
    fileprivate var serverID: ServerID? {
        if let id = mutation.entity.serverID { return id }
        guard let name = mutation.entity.clientID, case .server(let id) = references[name]?.target else { return nil }
        return id
    }
}
