import JSONText

/// The entity that conflicts with a mutation, as a problem's `current` shows it.
struct CurrentEntity {
    let type: String
    let id: ServerID
    /// Nil if the gateway has the entity only from an upstream's response.
    var version: Int64?
    /// The feed's version when the upstream was asked, 0 for no version.
    ///
    /// It shows whether another writer has written since, which no clock could show. Nil where that does not matter.
    var feedVersion: Int64?
    var etag: String?
    var isDeleted = false
    /// JSON; nil for a deleted entity.
    var document: [UInt8]?
    /// Whether its document is stored and cannot be opened.
    var isUnreadable = false
    /// Whether its document is left out.
    ///
    /// An entity without a member `document` is known by its version alone.
    var isOutline = false

    var json: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("entity_type", type)
        writer.member("id", id)
        writer.member("version", version)
        if let feedVersion { writer.member("feed_version", feedVersion) }
        writer.member("etag", etag)
        writer.member("deleted", isDeleted)
        if !isOutline { writer.member("document", raw: document) }
        writer.unreadable(isUnreadable ? ["document"] : [])
        writer.endObject()
        return writer.bytes
    }
}

extension EntityState {
    /// The entity as a conflict's `current` shows it.
    ///
    /// - Parameter isOutline: whether to leave its document out.
    func json(type: String, id: ServerID, isOutline: Bool = false) -> [UInt8] {
        let current = CurrentEntity(
            type: type,
            id: id,
            version: version,
            etag: etag,
            isDeleted: isDeleted,
            document: isOutline ? nil : document,
            isUnreadable: isUnreadable,
            isOutline: isOutline
        )
        return current.json
    }

    /// Whether a copy of the document is too large for each conflicting mutation's row.
    var isLarge: Bool { documentBytes > WorkBounds.small }
}

extension Problem {
    /// The problem of a discarded mutation: its last problem, and the current entity.
    ///
    /// - Parameters:
    ///   - error: the mutation's last problem; nil for none.
    ///   - isOutline: whether to leave the entity's document out.
    public static func given(
        up error: [UInt8]?,
        for current: EntityState,
        type: String,
        id: ServerID,
        isOutline: Bool = false
    ) -> [UInt8] {
        let detail = "it was discarded before its outcome was known"
        let current = current.json(type: type, id: id, isOutline: isOutline)
        return json(error ?? Problem(.discarded, detail).json, current: current, isOutline: isOutline)
    }

    /// Adds the present entity to a stored problem whose `current` lacks its document.
    ///
    /// - Returns: nil where the problem has its document, or is about another entity.
    public static func completed(_ problem: [UInt8], with entity: EntityState, _ key: EntityKey) -> [UInt8]? {
        guard let outline = CurrentOutline(problem), !outline.isWhole, outline.key == key else { return nil }
        let id = ServerID(text: key.id, isInteger: entity.isIntegerID)
        return json(problem, current: entity.json(type: key.type, id: id))
    }

    /// A stored problem with another `current`; an unreadable one is not changed.
    ///
    /// - Parameter isOutline: whether `current` lacks its document.
    static func json(_ problem: [UInt8], current: [UInt8], isOutline: Bool = false) -> [UInt8] {
        guard let members = try? JSONTree(parsing: problem, limits: .widest).root.members else { return problem }
        var writer = JSONWriter(capacity: problem.count + current.count)
        writer.beginObject()
        for (name, value) in members where !name.equals("current") && !name.equals("current_omitted") {
            writer.name(name.string)
            writer.raw(Array(value.raw))
        }
        writer.name("current")
        writer.raw(current)
        if isOutline { writer.member("current_omitted", true) }
        writer.endObject()
        return writer.bytes
    }
}

/// The contents of a problem's `current` about the entity, apart from its document.
public struct CurrentOutline: Sendable {
    private static let name = Array("\"current\"".utf8)

    public let key: EntityKey
    /// Its version, its ETag and whether it is deleted, as JSON.
    ///
    /// Equal for equal states.
    public let state: [UInt8]
    /// Whether the problem has the document, too.
    public let isWhole: Bool

    /// - Parameter problem: a problem object as JSON.
    /// - Returns: nil where it has no `current` that names an entity.
    public init?(_ problem: [UInt8]) {
        // most problems do not have the member, and need not be parsed
        guard problem.firstRange(of: Self.name) != nil,
            let current = (try? JSONTree(parsing: problem, limits: .widest))?.root["current"],
            let type = current["entity_type"]?.string, let id = current["id"].flatMap(ServerID.init(json:))
        else { return nil }
        key = EntityKey(type: type, id: id.text)
        state = ["version", "feed_version", "etag", "deleted"].flatMap { name in
            (current[name].map { Array($0.raw) } ?? []) + [UInt8(ascii: ",")]
        }
        isWhole = current["document"] != nil
    }

    /// A problem with a pointer or a mark in place of its `current`.
    ///
    /// - Parameter place: where the same answer shows it (RFC 6901); nil where it does not.
    public static func cut(_ problem: [UInt8], place: String?) -> [UInt8] {
        guard let members = try? JSONTree(parsing: problem, limits: .widest).root.members else { return problem }
        return JSONWriter.object { writer in
            for (name, value) in members where !name.equals("current") && !name.equals("current_omitted") {
                writer.name(name.string)
                writer.value(value)
            }
            if let place {
                writer.member("current_at", place)
            } else {
                writer.member("current_omitted", true)
            }
        }
    }
}
