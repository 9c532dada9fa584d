import HTTPTypes
import JSONText
import SyncHTTP
import SyncModel
import SyncStore

/// `GET /admin/me`: the identity and scope of the caller, and information about the gateway.
struct MeEndpoint: Sendable {
    let store: Store
    let version: String

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return Answer(.ok) { writer in
            writer.member("name", exchange.operatorToken?.name)
            writer.member("scope", exchange.operatorToken?.scope.rawValue)
            writer.member("version", version)
            writer.member("gateway_id", store.notifier.gatewayID)
            writer.member("sealed", store.masterKeys != nil)
        }
    }
}
