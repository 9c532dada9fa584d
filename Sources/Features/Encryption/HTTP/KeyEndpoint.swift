import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `GET /admin/organizations/{id}/keys`: an organization's data keys, without secrets.
struct KeyEndpoint: Sendable {
    let store: Store

    func list(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard let keys = try await store.keyRotation.keys(of: exchange.uuid(at: 0)) else { throw Refusal.notFound }
        let newest = keys.first?.number
        return Answer(.ok) { writer in
            writer.member("keys", keys) { writer, key in
                writer.object { writer in
                    writer.member("number", Int64(key.number))
                    writer.member("master_key", key.masterKey)
                    writer.member("made_at", key.createdAt.rfc3339)
                    writer.member("state", state(of: key, newest: newest))
                }
            }
        }
    }

    /// The state of a data key: `seals` for the newest key, `opens` for an older key, `locked` if its master key is not
    /// configured.
    private func state(of key: KeyRotation.Key, newest: Int32?) -> String {
        guard store.masterKeys?[key.masterKey] != nil else { return "locked" }
        return key.number == newest ? "seals" : "opens"
    }
}
