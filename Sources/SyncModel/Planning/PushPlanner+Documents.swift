/// Bounds on the stored documents that the patches of a push are merged into.
///
/// A push is a few bytes while each of these may have a megabyte, so its body does not tell how much it takes.
public enum DocumentBounds {
    /// Bytes that a push may merge into, a document as often as it is patched, and still be committed together with
    /// others.
    public static let light = 524_288
    /// Bytes of all documents that a push may patch: as many as are written within a statement's time.
    public static let most = 33_554_432
}

extension PushPlanner {
    /// Refuses what takes too much for its place, before anything is merged.
    static func weigh(_ accepted: [JudgedMutation], _ entities: EntityTable, _ context: Context) throws(PushRefusal) {
        // usually all of them together are small
        guard entities.largestDocument * accepted.count > DocumentBounds.light else { return }
        var (merged, patched) = (0, 0)
        var seen: Set<EntityKey> = []
        for mutation in accepted where mutation.mutation.operation == .update && !mutation.type.isForwarded {
            guard let id = mutation.serverID else { continue }
            let key = EntityKey(type: mutation.mutation.entity.type, id: id.text)
            let bytes = entities[key]?.document?.count ?? 0
            merged += bytes
            if seen.insert(key).inserted { patched += bytes }
        }
        if context.isAmongOthers, merged > DocumentBounds.light { throw .isHeavy }
        guard patched <= DocumentBounds.most else {
            let detail =
                "the documents that this push patches have \(patched) bytes, and may have \(DocumentBounds.most) together"
            throw .problem(Problem(.payloadTooLarge, detail + "; send its mutations in several pushes"))
        }
    }
}

extension JudgedMutation {
    /// Of an entity that was there before the push.
    fileprivate var serverID: ServerID? {
        if let id = mutation.entity.serverID { return id }
        guard let name = mutation.entity.clientID, case .server(let id) = references[name]?.target else { return nil }
        return id
    }
}
