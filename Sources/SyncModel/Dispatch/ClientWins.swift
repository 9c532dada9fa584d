import Foundation
import JSONText

/// What is sent to have the client's way in a conflict (product rule 12). Pure.
public enum ClientWins {
    /// Finds what the new revision sends; it carries no If-Match.
    ///
    /// - Parameters:
    ///   - endpoint: the mutation's own, with server ids in place.
    ///   - payload: the mutation's own, with server ids in place; nil for none.
    ///   - current: the server's document; nil when it is unknown.
    ///   - serverID: the entity that is there; for a create the one that stands in its way, nil when unknown.
    /// - Returns: nil when only a person can settle the conflict.
    public static func plan(
        _ operation: Operation,
        idSpace: IDSpace,
        endpoint: String,
        payload: [UInt8]?,
        current: [UInt8]?,
        serverID: ServerID?
    ) -> QueuedMutation.Override? {
        switch operation {
        case .replace:
            return QueuedMutation.Override(method: "PUT", endpoint: endpoint, payload: payload)
        case .delete:
            return QueuedMutation.Override(method: "DELETE", endpoint: endpoint, payload: payload)
        case .update:
            guard let current, let payload, let patch = try? JSONTree(parsing: payload).root,
                let merged = try? JSONValue.mergePatch(target: current, patch: patch)
            else { return QueuedMutation.Override(method: "PATCH", endpoint: endpoint, payload: payload) }
            return QueuedMutation.Override(method: "PUT", endpoint: endpoint, payload: merged)
        case .create:
            // never over an id that the client chose itself
            guard idSpace != .shared, let serverID else { return nil }
            let path = Endpoint.appending(serverID, to: endpoint)
            return QueuedMutation.Override(method: "PUT", endpoint: path, payload: payload)
        }
    }
}
