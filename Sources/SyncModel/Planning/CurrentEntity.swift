import JSONText

/// The entity that conflicts with a mutation, as a problem's `current` shows it.
struct CurrentEntity {
    let type: String
    let id: ServerID
    /// Nil where the gateway knows the entity only from an upstream's answer.
    var version: Int64?
    /// The version that the feed had when the upstream was asked, 0 for none: whether somebody has written since can be
    /// told by it, and by no clock. Nil where that does not matter.
    var feedVersion: Int64?
    var etag: String?
    var isDeleted = false
    /// JSON; nil for a deleted entity.
    var document: [UInt8]?
    /// Whether its document is stored and cannot be opened.
    var isUnreadable = false

    var json: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("entity_type", type)
        writer.member("id", id)
        writer.member("version", version)
        if let feedVersion { writer.member("feed_version", feedVersion) }
        writer.member("etag", etag)
        writer.member("deleted", isDeleted)
        writer.member("document", raw: document)
        writer.unreadable(isUnreadable ? ["document"] : [])
        writer.endObject()
        return writer.bytes
    }
}

extension EntityState {
    /// The entity as a conflict's `current` shows it.
    func json(type: String, id: ServerID) -> [UInt8] {
        let current = CurrentEntity(
            type: type,
            id: id,
            version: version,
            etag: etag,
            isDeleted: isDeleted,
            document: document,
            isUnreadable: isUnreadable
        )
        return current.json
    }
}

extension Problem {
    /// The problem of a discarded mutation: its last problem, and the current entity.
    ///
    /// - Parameter error: the mutation's last problem; nil for none.
    public static func given(up error: [UInt8]?, for current: EntityState, type: String, id: ServerID) -> [UInt8] {
        let detail = "it was discarded before anything was known to have come of it"
        return json(error ?? Problem(.discarded, detail).json, current: current.json(type: type, id: id))
    }

    /// A stored problem with another `current`; one that cannot be read stays as it is.
    static func json(_ problem: [UInt8], current: [UInt8]) -> [UInt8] {
        guard let members = try? JSONTree(parsing: problem, limits: .widest).root.members else { return problem }
        var writer = JSONWriter(capacity: problem.count + current.count)
        writer.beginObject()
        for (name, value) in members where !name.equals("current") {
            writer.name(name.string)
            writer.raw(Array(value.raw))
        }
        writer.name("current")
        writer.raw(current)
        writer.endObject()
        return writer.bytes
    }
}
