import Foundation
public import JSONText

/// How a forwarded mutation overrides the state of another writer. Pure.
///
/// Product rule 12.
public enum ClientWins {
    /// The most bytes of a document merged for a PUT.
    static let maximumDocumentBytes = 1_048_576

    /// Decides the request of the next revision.
    ///
    /// Nil where the conflict stays for a person, because no request would be sure to overwrite the right entity.
    ///
    /// - Parameters:
    ///   - endpoint: of the mutation, with the known server ids in place.
    ///   - payload: of the mutation, with the known server ids in place; nil if it is missing.
    ///   - current: the server's document, JSON; nil where it is unknown or the entity was deleted.
    ///   - serverID: of the conflicting entity; nil where it is unknown.
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

    /// PUT of the server's document with the patch merged in.
    ///
    /// The PATCH as it is where there is nothing to merge.
    private static func update(_ patch: JSONValue?, _ current: [UInt8]?) -> SentRequest {
        guard let current, let patch, patch.kind == .object,
            let merged = try? JSONValue.mergePatch(target: current, patch: patch, maximumBytes: maximumDocumentBytes)
        else { return SentRequest(method: "PATCH") }
        return SentRequest(method: "PUT", payload: merged)
    }

    /// PUT to the existing entity, below the collection of the create.
    ///
    /// Never for a global id: the entity that has it is another one, not an earlier state of this one.
    private static func create(_ endpoint: String, _ idSpace: IDSpace, _ serverID: ServerID?) -> SentRequest? {
        guard idSpace != .shared, let serverID else { return nil }
        let parts = endpoint.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let path = parts[0].hasSuffix("/") ? parts[0].dropLast() : parts[0]
        let id = String(decoding: PercentEncoding.encoded(serverID.text), as: UTF8.self)
        let query = parts.count > 1 ? "?" + parts[1] : ""
        return SentRequest(method: "PUT", endpoint: path + "/" + id + query)
    }
}

/// Whether the feed adopts the state that an upstream showed to a user.
///
/// The user's mutation gave way to that state.
struct UpstreamStateAdoption {
    let user: UUID
    let visibility: Visibility
    let isCreate: Bool
    /// The channels that the user holds.
    var access = ChannelAccess()

    /// - Parameters:
    ///   - stored: the current entity.
    ///   - isNewer: whether the entity was written after the gateway asked the upstream: that writer knows better.
    func isPossible(over stored: EntityState?, isNewer: Bool) -> Bool {
        // a private entity belongs to its creator
        guard let stored else { return isCreate || visibility == .organization }
        guard stored.isVisible(to: user, visibility, access), !isNewer else { return false }
        return !isCreate || stored.mayBeMade(by: user)
    }
}

extension EntityState {
    /// Whether a create's answer may be about this entity. A create makes a new entity: an answer that names one that
    /// another user has written shows at most that it exists.
    func mayBeMade(by user: UUID) -> Bool { isDeleted || lastWriter.isOwn(of: user) }
}
