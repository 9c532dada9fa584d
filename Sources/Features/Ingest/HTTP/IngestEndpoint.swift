import HTTPTypes
import SyncHTTP
import SyncModel
import SyncStore

/// `POST /v1/ingest`: accepts edits made outside the gateway, and returns the outcome of each.
struct IngestEndpoint: Sendable {
    let store: Store
    let bodies: BodyReader
    let limits: IntakeLimits
    /// Limits the bodies decoded at a time, pushes' included.
    let gate: AdmissionController

    func ingest(_ exchange: Exchange, _ bearer: IngestBearer) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let limits = limits
        return try await bodies.withBody(of: exchange) { body in
            try await gate.admit(body.count, for: exchange.user) {
                let request = try await BlockingWork.readInBackground(body) { body throws(Problem) in
                    try IngestRequest(body: body, limits: limits)
                }
                return Answer(.ok, try await store.ingest.submit(request, from: bearer))
            }
        }
    }
}
