import HTTPTypes
import SyncModel
import SyncStore

/// `POST /v1/devices/{device_id}/pull`: the feed in a device's local ids.
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

    /// Responds with a page; with `wait` an empty one is held until there is a change or the time is over.
    func pull(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let device = try exchange.uuid(at: 0)
        let request = try await bodies.withBody(of: exchange, isOptional: true) { body in
            try PullRequest(body: body, limit: bodies.limit)
        }
        let wait = min(.seconds(request.wait), longestWait)
        let json = try await ClientPresence.reading(on: exchange, wait: wait) { wait in
            try await BlockingWork.run {
                try await store.pulls.pull(
                    request,
                    device: device,
                    organization: caller.organization,
                    user: caller.user,
                    wait: wait,
                    room: exchange.hold.room()
                ).json()
            }
        }
        return Answer(.ok, json: json)
    }
}
