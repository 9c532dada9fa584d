import HTTPTypes
import SyncModel
import SyncStore

/// `PUT /v1/devices/{device_id}`: registers one of the caller's devices.
struct DeviceEndpoint: Sendable {
    /// The largest body, in bytes.
    private static let bodyBytes = 16_384

    let store: Store
    private let bodies: BodyReader

    init(store: Store, budget: FairBudget) {
        self.store = store
        bodies = BodyReader(limit: Self.bodyBytes, budget: budget)
    }

    func register(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let device = try exchange.uuid(at: 0)
        return try await bodies.withBody(of: exchange, isOptional: true) { body in
            _ = try DeviceRegistration(body: body, limit: bodies.limit)
            return try .written(
                await store.devices.register(device, organization: caller.organization, user: caller.user)
            )
        }
    }
}
