import Foundation
import SyncModel

/// The names in one push that are looked up.
struct PushLookUps {
    /// Keys of mutations and of refusals.
    private(set) var keys: Set<UUID> = []
    /// Ids of mutations.
    private(set) var ids: Set<UUID> = []
    /// Client ids of the user.
    private(set) var clients: Set<UUID> = []
    /// The UUIDs of local ids that the push creates; other local ids are always looked up.
    private(set) var created: Set<UUID> = []

    var isEmpty: Bool { keys.isEmpty && ids.isEmpty && clients.isEmpty && created.isEmpty }

    /// Splits the look-ups into those made at first, and those needed only before something is refused.
    ///
    /// - Parameter watermark: above which keys are new; nil to look up every key.
    static func split(_ push: PushRequest, watermark: Int64?) -> (wanted: PushLookUps, rest: PushLookUps) {
        var (wanted, rest) = (PushLookUps(), PushLookUps())
        for entry in push.entries {
            // a number above the watermark has not been judged; the unique indexes catch the exception
            let isNew = watermark.map { (entry.sequenceNumber ?? 0) > $0 } ?? false
            if let key = entry.idempotencyKey {
                if isNew { rest.keys.insert(key) } else { wanted.keys.insert(key) }
            }
            // below the watermark the key alone decides
            if let id = entry.id {
                if watermark == nil { wanted.ids.insert(id) } else { rest.ids.insert(id) }
            }
            guard let mutation = entry.said else { continue }
            wanted.ids.formUnion(mutation.dependencyIDs)
            wanted.clients.formUnion(mutation.dependencyIDs)
            wanted.clients.formUnion(mutation.references)
            switch mutation.entity.client {
            case .id(let id) where isNew && mutation.operation == .create: rest.clients.insert(id)
            case .id(let id): wanted.clients.insert(id)
            case .number(_, let standIn) where isNew && mutation.operation == .create: rest.created.insert(standIn)
            // local ids are looked up anyway
            case .number, nil: break
            }
        }
        rest.keys.subtract(wanted.keys)
        rest.ids.subtract(wanted.ids)
        rest.clients.subtract(wanted.clients)
        return (wanted, rest)
    }
}
