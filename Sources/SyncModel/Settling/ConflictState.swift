public import Foundation
import JSONText

/// The entity that conflicts with a mutation, as the stored conflict shows it.
struct ConflictState {
    /// Its permanent id; nil where the conflict does not contain it.
    let id: ServerID?
    /// Its version here; nil where only the upstream's answer showed it.
    let version: Int64?
    /// The feed's version when the upstream was asked, 0 for no version.
    ///
    /// Nil where the conflict does not contain it.
    let feedVersion: Int64?
    /// The upstream's ETag.
    let etag: String?
    let isDeleted: Bool
    /// JSON; nil where it is unknown or the entity was deleted.
    let document: [UInt8]?

    /// Reads `current` of a `conflict` problem; nil if the problem does not have it.
    init?(error: [UInt8]?) {
        guard let error, let root = try? JSONTree(parsing: error, limits: .widest).root,
            let current = root["current"], current.kind == .object
        else { return nil }
        id = current["id"].flatMap(ServerID.init(json:))
        version = current["version"]?.int64
        feedVersion = current["feed_version"]?.int64
        etag = current["etag"]?.string
        let isDeleted = current["deleted"]?.bool ?? false
        self.isDeleted = isDeleted
        document = current["document"].flatMap { $0.isNull || isDeleted ? nil : Array($0.raw) }
    }

    /// The document, where the upstream itself showed it.
    ///
    /// The feed's may be older.
    var documentOfConflict: [UInt8]? { version == nil ? document : nil }

    /// The entity of a mutation, as far as it is known.
    ///
    /// For a create it is the one that the last answer names: the id that the mutation has may be that of another
    /// entity, which an earlier attempt conflicted with.
    static func entity(of record: MutationRecord, _ current: ConflictState?, _ idPointer: String) -> ServerID? {
        let named = id(inAnswer: record.responseBody, at: idPointer) ?? current?.id
        let known = record.entity.serverID
        return record.operation == .create ? named ?? known : known ?? named
    }

    static func id(inAnswer body: [UInt8]?, at pointer: String) -> ServerID? {
        guard let body, let root = try? JSONTree(parsing: body, limits: .widest).root else { return nil }
        return root.value(at: pointer).flatMap(ServerID.init(json:))
    }
}

extension SettleSubject {
    /// The entity that a conflict is about; nil where it is unknown.
    ///
    /// - Parameter idPointer: where an upstream's answer names the entity (RFC 6901).
    public func conflictingEntity(_ idPointer: String) -> EntityKey? {
        let id = ConflictState.entity(of: record, ConflictState(error: record.error), idPointer)
        return id.map { EntityKey(type: record.entity.type, id: $0.text) }
    }

    /// Whether the entity was written after the upstream showed the conflicting state.
    ///
    /// Nil where the conflict does not contain the version. A time cannot show it: another lane's write may be recorded
    /// while the response is under way, and gateways have different clocks.
    ///
    /// - Parameters:
    ///   - stored: the current entity; one that the user may not know of is treated as missing.
    ///   - user: whose mutation it is.
    public func isOvertaken(by stored: EntityState, for user: UUID) -> Bool? {
        guard stored.isVisible(to: user, type.visibility) else { return false }
        return ConflictState(error: record.error)?.feedVersion.map { $0 != stored.version }
    }
}
