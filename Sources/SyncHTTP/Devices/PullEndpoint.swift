import HTTPTypes
import SyncModel
import SyncStore

/// `POST /v1/devices/{device_id}/pull`: the feed in a device's own ids.
struct PullEndpoint: Sendable {
    /// The largest body, in bytes.
    private static let bodyBytes = 65_536

    let store: Store
    let longestWait: Duration
    private let bodies: BodyReader

    init(store: Store, budget: FairBudget, longestWait: Duration) {
        self.store = store
        self.longestWait = longestWait
        bodies = BodyReader(limit: Self.bodyBytes, budget: budget)
    }

    /// A page; with `wait` an empty one is held until something shows or the time is over.
    func pull(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try Query(of: exchange)
        let device = try exchange.uuid(at: 0)
        let request = try await bodies.withOptionalBody(of: exchange) { body in
            try PullRequest(body: body, limit: bodies.limit)
        }
        let pull: @Sendable (Duration) async throws -> [UInt8] = { wait in
            try await OffEventLoop.run {
                try await store.pulls.pull(
                    request,
                    device: device,
                    organization: caller.organization,
                    user: caller.user,
                    wait: wait,
                    room: exchange.hold.room()
                )
            }
        }
        let wait = min(.seconds(request.wait), longestWait)
        var page: [UInt8]?
        if wait > .zero { page = try await ClientPresence.whileWaited(on: exchange) { try await pull(wait) } }
        // no wait, or one that ended early: the feed as it is now
        let json = if let page { page } else { try await pull(.zero) }
        return Answer(.ok, json: json)
    }
}
