import HTTPTypes
package import JSONText
import SyncModel
package import SyncStore

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

/// The body of a registration: `{}`, or nothing.
struct DeviceRegistration: Sendable {
    /// - Throws: `invalid_json`, or `invalid_request` with a pointer to the defect.
    init(body: [UInt8], limit: Int) throws(Problem) {
        if body.isEmpty { return }
        let (tree, members) = try JSONTree.object(in: body, limit: limit)
        if let defect = tree.defects.first { throw Problem(defect) }
        for (name, _) in members {
            let pointer = JSONPointer().appending(member: name.string).text
            throw Self.problem(pointer, Rule.unknownMember, "'\(name.string)' is not a member of a registration")
        }
    }

    private static func problem(_ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: rule, detail)
    }
}

extension DeviceRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("device_id", id)
        writer.member("accepted_sequence", acceptedSequence)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("last_seen_at", lastSeenAt.rfc3339)
        writer.nextLocalIDs(nextLocalIDs)
    }
}

extension JSONWriter {
    /// Writes `next_local_ids`: for each entity type, the next local id that the device assigns; null if no local id is
    /// left.
    mutating func nextLocalIDs(_ counters: [(type: String, next: Int64?)]) {
        member("next_local_ids") { writer in
            for (type, next) in counters {
                writer.name(type)
                if let next { writer.int(next) } else { writer.null() }
            }
        }
    }
}

/// `POST /v1/devices/{device_id}/pull`: returns the feed with the device's local ids.
struct PullEndpoint: Sendable {
    /// The largest body, in bytes.
    private static let bodyBytes = 65_536

    private let pulls: DevicePuller
    private let longestWait: Duration
    private let bodies: BodyReader

    init(store: Store, budget: FairBudget, longestWait: Duration) {
        pulls = store.pulls
        self.longestWait = longestWait
        bodies = BodyReader(limit: Self.bodyBytes, budget: budget)
    }

    /// Responds with a page. If the request has a `wait`, an empty page is delayed until there is a change or the
    /// `wait` is over.
    func pull(_ exchange: Exchange, _ caller: Caller) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let device = try exchange.uuid(at: 0)
        let request = try await bodies.withBody(of: exchange, isOptional: true) { body in
            try PullRequest(body: body, limit: bodies.limit)
        }
        let wait = min(.seconds(request.wait), longestWait)
        let json = try await ClientPresence.reading(on: exchange, wait: wait) { wait in
            try await BlockingWork.run {
                try await pulls.pull(
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
