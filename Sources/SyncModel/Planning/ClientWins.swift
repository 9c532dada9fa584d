import FoundationEssentials
public import JSONText

/// Decides how a forwarded mutation overrides another writer's state. This type does no I/O.
///
/// See product rule 12.
public enum ClientWins {
    /// The maximum number of bytes of a document that is merged for a PUT.
    static let maximumDocumentBytes = 1_048_576

    /// Returns the request that the gateway sends next for the mutation; nil if the conflict must wait for a person.
    ///
    /// The conflict must wait if it is not certain that a request would overwrite the right entity.
    ///
    /// - Parameters:
    ///   - endpoint: the mutation's endpoint, with the known server ids.
    ///   - payload: the mutation's payload, with the known server ids; nil if the mutation has no payload.
    ///   - current: the server's document, as JSON; nil if the document is unknown or the entity was deleted.
    ///   - serverID: the server id of the conflicting entity; nil if the id is unknown.
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

    /// A PUT of the server's document after the patch was merged into it. If there is no document, the result is the
    /// unchanged PATCH.
    private static func update(_ patch: JSONValue?, _ current: [UInt8]?) -> SentRequest {
        guard let current, let patch, patch.kind == .object,
            let merged = try? JSONValue.mergePatch(target: current, patch: patch, maximumBytes: maximumDocumentBytes)
        else { return SentRequest(method: "PATCH") }
        return SentRequest(method: "PUT", payload: merged)
    }

    /// A PUT to the existing entity, at a path below the collection to which the create was sent.
    ///
    /// Nil for the id space `shared`, because there the existing entity is not the entity that the client created.
    private static func create(_ endpoint: String, _ idSpace: IDSpace, _ serverID: ServerID?) -> SentRequest? {
        guard idSpace != .shared, let serverID, !endpoint.isEmpty else { return nil }
        let parts = endpoint.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts[0].hasSuffix("/") ? parts[0].dropLast() : parts[0]
        let id = String(decoding: PercentEncoding.encoded(serverID.text), as: UTF8.self)
        let query = parts.count > 1 ? "?" + parts[1] : ""
        return SentRequest(method: "PUT", endpoint: path + "/" + id + query)
    }
}

/// Decides whether the feed adopts an entity's state that the upstream sent in response to a user's request.
///
/// The user's mutation was discarded, and the upstream's state was kept.
struct UpstreamStateAdoption {
    let user: UUID
    let visibility: Visibility
    let isCreate: Bool
    /// The channels that the user holds.
    var access = ChannelAccess()

    /// - Parameters:
    ///   - stored: the current entity.
    ///   - isNewer: whether the entity was written after the gateway sent the request. If so, the feed keeps the later
    ///     write.
    func isPossible(over stored: EntityState?, isNewer: Bool) -> Bool {
        // only a create can add a private entity, because a private entity belongs to its creator
        guard let stored else { return isCreate || visibility == .organization }
        guard stored.isVisible(to: user, visibility, access), !isNewer else { return false }
        return !isCreate || stored.mayBeMade(by: user)
    }
}

extension EntityState {
    /// Whether the response to a user's create may refer to this entity.
    ///
    /// A create makes a new entity. If the response identifies an entity that another user has written, the response
    /// proves only that this entity exists.
    func mayBeMade(by user: UUID) -> Bool { isDeleted || lastWriter.isOwn(of: user) }
}
