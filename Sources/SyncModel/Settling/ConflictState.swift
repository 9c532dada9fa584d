import JSONText

/// The entity that stands in a mutation's way, as the stored conflict shows it.
struct ConflictState {
    /// Its permanent id, when it is told.
    let id: ServerID?
    /// Its version here; nil where only the upstream's answer told of it.
    let version: Int64?
    /// The upstream's validator of it.
    let etag: String?
    /// Whether it was deleted.
    let isDeleted: Bool
    /// Its document, JSON; nil where it is unknown or the entity was deleted.
    let document: [UInt8]?

    /// Reads `current` of a `conflict` problem; nil when there is none.
    init?(error: [UInt8]?) {
        guard let error, let root = try? JSONTree(parsing: error, limits: .widest).root,
            let current = root["current"], current.kind == .object
        else { return nil }
        id = current["id"].flatMap(ServerID.init(json:))
        version = current["version"]?.int64
        etag = current["etag"]?.string
        let isDeleted = current["deleted"]?.bool ?? false
        self.isDeleted = isDeleted
        document = current["document"].flatMap { $0.isNull || isDeleted ? nil : Array($0.raw) }
    }

    /// The document, where the upstream itself told it: what the feed knew may be behind that.
    var toldDocument: [UInt8]? { version == nil ? document : nil }

    /// The entity that a mutation is about as far as it is known. What stands in a create's way is what the last answer
    /// names: the id that the mutation has may be that of another, which was in its way before.
    static func entity(of record: MutationRecord, _ current: ConflictState?, _ idPointer: String) -> ServerID? {
        let named = id(inAnswer: record.responseBody, at: idPointer) ?? current?.id
        let known = record.entity.serverID
        return record.operation == .create ? named ?? known : known ?? named
    }

    /// The id that an upstream's answer names.
    static func id(inAnswer body: [UInt8]?, at pointer: String) -> ServerID? {
        guard let body, let root = try? JSONTree(parsing: body, limits: .widest).root else { return nil }
        return root.value(at: pointer).flatMap(ServerID.init(json:))
    }
}
