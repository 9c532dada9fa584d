import JSONText

/// The entity that stands in a mutation's way, as a problem's `current` shows it.
struct CurrentEntity {
    let type: String
    let id: ServerID
    /// Nil where only an upstream's answer tells of it.
    var version: Int64?
    var etag: String?
    var isDeleted = false
    /// JSON; nil of what was deleted.
    var document: [UInt8]?
    /// Whether its document is stored and cannot be opened.
    var isUnreadable = false

    var json: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("entity_type", type)
        writer.member("id", id)
        writer.member("version", version)
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
    /// What a mutation is told that was given up: what stands in its place, beside what had befallen it.
    ///
    /// - Parameter error: the problem that it had; nil for none.
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
