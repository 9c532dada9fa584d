public import FoundationEssentials
import JSONText

/// The entity with which a mutation is in conflict, as written to the member `current` of a problem.
struct CurrentEntity {
    let type: String
    let id: ServerID
    /// The entity's version; nil if the gateway received the entity only in an upstream's response.
    var version: Int64?
    /// The entity's version in the feed when the request was sent; nil if this version does not matter.
    ///
    /// The value is 0 if the feed did not contain the entity. The version shows whether another writer has written
    /// since the request was sent, which timestamps cannot show.
    var feedVersion: Int64?
    var etag: String?
    var isDeleted = false
    /// The document as JSON; nil for a deleted entity.
    var document: [UInt8]?
    /// Whether the entity's document is stored but cannot be decrypted.
    var isUnreadable = false
    /// Whether the entity's document is omitted.
    ///
    /// If true, the JSON has no member `document`. All other members are written.
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
    /// The JSON of the entity for the `current` of a conflict.
    ///
    /// - Parameter isOutline: whether to omit the document.
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

    /// Whether the document is too large to be copied into the row of each conflicting mutation.
    var isLarge: Bool { documentBytes > WorkBounds.small }
}

extension Problem {
    /// The problem of a discarded mutation, with its last problem and the current entity.
    ///
    /// - Parameters:
    ///   - error: the mutation's last problem; nil if the mutation had no problem.
    ///   - isOutline: whether to omit the entity's document.
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

    /// Adds the present entity to a stored problem if the `current` of this problem lacks the document.
    ///
    /// - Returns: nil if the problem already has the document, or is about another entity.
    public static func completed(_ problem: [UInt8], with entity: EntityState, _ key: EntityKey) -> [UInt8]? {
        guard let outline = CurrentOutline(problem), !outline.isWhole, outline.key == key else { return nil }
        let id = ServerID(text: key.id, isInteger: entity.isIntegerID)
        return json(problem, current: entity.json(type: key.type, id: id))
    }

    /// Replaces `current` in a stored problem. A problem that cannot be parsed is not changed.
    ///
    /// - Parameter isOutline: whether the given `current` lacks the document.
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

/// The contents of a problem's `current`, except the document.
public struct CurrentOutline: Sendable {
    private static let name = Array("\"current\"".utf8)

    public let key: EntityKey
    /// The entity's version, its ETag and whether it is deleted, as JSON.
    ///
    /// Equal states of an entity have equal bytes.
    public let state: [UInt8]
    /// Whether the problem also contains the document.
    public let isWhole: Bool

    /// - Parameter problem: a problem object as JSON.
    /// - Returns: nil if the problem has no `current`, or if its `current` does not identify an entity.
    public init?(_ problem: [UInt8]) {
        // most problems have no `current`, and need not be parsed
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

    /// The problem with a JSON Pointer in place of `current`, or with a mark that `current` is omitted.
    ///
    /// - Parameter place: the JSON Pointer (RFC 6901) to the entity in the same answer; nil for a mark, if the answer
    ///   does not contain the entity.
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

/// An entity's version, and the uninterrupted series of writes by its last writer.
///
/// The check of `base_version` uses this history for every entity type.
struct VersionHistory: Sendable, Hashable {
    let version: Int64
    /// The version before the last writer's uninterrupted series of writes.
    let base: Int64
    let lastWriter: Writer

    /// The relation of a write's `base_version` to the entity's version.
    enum Verdict: Sendable, Hashable {
        /// No other writer has written since this writer read the entity.
        ///
        /// The writer may have written since then: writes that one writer made offline from the same version are not in
        /// conflict with each other.
        case fits
        /// Another writer has written since this writer read the entity.
        case passed
        /// The writer saw a version that the gateway does not have, for example after a restore from a backup.
        ///
        /// The gateway cannot determine what the write would overwrite.
        case ahead
    }

    /// Compares a write with the entity's version. A write without a `base_version` overwrites any version.
    func verdict(on baseVersion: Int64?, from writer: Writer) -> Verdict {
        guard let baseVersion, baseVersion != version else { return .fits }
        if baseVersion > version { return .ahead }
        return writer == lastWriter && baseVersion >= base ? .fits : .passed
    }

    /// The verdict as a sentence, for a conflict's `detail`.
    func conflictDescription(on baseVersion: Int64) -> String {
        baseVersion > version
            ? "base_version is \(baseVersion), but the entity's version is only \(version)"
            : "base_version is \(baseVersion), but another writer changed the entity, which is at version \(version)"
    }
}

/// A user on a device.
public struct Writer: Sendable, Hashable {
    public let user: UUID
    public let device: UUID

    public init(user: UUID, device: UUID) {
        self.user = user
        self.device = device
    }

    /// The writer of a state that the feed adopted from the upstream's response to a user's request.
    ///
    /// The writer has no device. If the writer had the device, the gateway would treat later edits from this device as
    /// based on the adopted state, although the device has not seen this state.
    static func adopting(_ user: UUID) -> Writer { Writer(user: user, device: noDevice) }

    /// Whether one of the user's devices wrote the state. False for an adopted state.
    func isOwn(of user: UUID) -> Bool { self.user == user && device != Self.noDevice }

    static let noDevice = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 0))
}

extension Writer {
    /// The writer of edits made outside of Sluice, and the owner of entities that no user created.
    ///
    /// No user and no device has this id.
    public static let elsewhere = Writer(user: elsewhereID, device: elsewhereID)

    /// The id that replaces the id of an erased user.
    public static let erased = UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))

    /// Whether an id is reserved, which means that it can never be the id of a user.
    public static func isReserved(_ id: UUID) -> Bool { id == erased || id == elsewhereID || id == noDevice }

    private static let elsewhereID = UUID(uuid: (0, 0, 0, 0, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 1))
}
