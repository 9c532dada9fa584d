import FoundationEssentials
public import JSONText

/// Decides how a forwarded mutation overrides another writer's state. It does no I/O.
///
/// Product rule 12.
public enum ClientWins {
    /// The maximum number of bytes of a document that is merged for a PUT.
    static let maximumDocumentBytes = 1_048_576

    /// Decides the request of the next revision.
    ///
    /// Nil if no request would certainly overwrite the right entity, so that the conflict waits for a person.
    ///
    /// - Parameters:
    ///   - endpoint: the mutation's endpoint, with the known server ids.
    ///   - payload: the mutation's payload, with the known server ids; nil if it is missing.
    ///   - current: the server's document, as JSON; nil if it is unknown or the entity was deleted.
    ///   - serverID: the server id of the conflicting entity; nil if it is unknown.
    public static func plan(
        operation: Operation,
        idSpace: IDSpace,
        endpoint: String,
        payload: JSONValue?,
        current: [UInt8]?,
        serverID: ServerID?
    ) -> SentRequest? {
        switch operation {
        case .replace: SentRequest(method: "PUT")
        case .delete: SentRequest(method: "DELETE")
        case .update: update(payload, current)
        case .create: create(endpoint, idSpace, serverID)
        }
    }

    /// A PUT of the server's document with the patch merged into it; the unchanged PATCH if there is nothing to merge.
    private static func update(_ patch: JSONValue?, _ current: [UInt8]?) -> SentRequest {
        guard let current, let patch, patch.kind == .object,
            let merged = try? JSONValue.mergePatch(target: current, patch: patch, maximumBytes: maximumDocumentBytes)
        else { return SentRequest(method: "PATCH") }
        return SentRequest(method: "PUT", payload: merged)
    }

    /// A PUT to the existing entity, below the collection of the create.
    ///
    /// Nil for a global id, because the existing entity with this id is another entity than the created one.
    private static func create(_ endpoint: String, _ idSpace: IDSpace, _ serverID: ServerID?) -> SentRequest? {
        guard idSpace != .shared, let serverID, !endpoint.isEmpty else { return nil }
        let parts = endpoint.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts[0].hasSuffix("/") ? parts[0].dropLast() : parts[0]
        let id = String(decoding: PercentEncoding.encoded(serverID.text), as: UTF8.self)
        let query = parts.count > 1 ? "?" + parts[1] : ""
        return SentRequest(method: "PUT", endpoint: path + "/" + id + query)
    }
}

/// Decides whether the feed adopts the state that an upstream showed to a user.
///
/// The user's mutation was discarded in favor of that state.
struct UpstreamStateAdoption {
    let user: UUID
    let visibility: Visibility
    let isCreate: Bool
    /// The channels that the user holds.
    var access = ChannelAccess()

    /// - Parameters:
    ///   - stored: the current entity.
    ///   - isNewer: whether the entity was written after the gateway asked the upstream. If so, the later write is
    ///     kept.
    func isPossible(over stored: EntityState?, isNewer: Bool) -> Bool {
        // a private entity belongs to its creator
        guard let stored else { return isCreate || visibility == .organization }
        guard stored.isVisible(to: user, visibility, access), !isNewer else { return false }
        return !isCreate || stored.mayBeMade(by: user)
    }
}

extension EntityState {
    /// Whether the answer to a user's create may be about this entity.
    ///
    /// A create makes a new entity. If its answer identifies an entity that another user has written, the answer proves
    /// only that this entity exists.
    func mayBeMade(by user: UUID) -> Bool { isDeleted || lastWriter.isOwn(of: user) }
}
