import Foundation
import GatewaySupport
import JSONText
import TestSupport

/// A phone's sync worker that never gives up. It pushes its outbox a batch at a time to any available replica, until
/// each batch is acknowledged. Like a real worker it forgets responses, repeats pushes, and sends the same push twice
/// concurrently.
actor RetryingWorker {
    /// The result of a mutation in a response.
    struct Acknowledgement: Equatable, Sendable {
        let serverID: String
        let version: Int64
    }

    let outbox: Outbox
    let token: String
    private let replicas: [String]
    private let done: Milestones
    private var random: SeededRandom
    /// The acknowledgements, by the mutation's id.
    private(set) var acknowledged: [String: Acknowledgement] = [:]
    private var firsts: Set<String> = []
    /// Violations.
    private(set) var violations: [String] = []
    /// Lost responses, and responses that asked to retry later.
    private(set) var setbacks = 0

    init(_ outbox: Outbox, replicas: [String], done: Milestones, random: SeededRandom) async throws {
        self.outbox = outbox
        self.replicas = replicas
        self.done = done
        self.random = random
        token = try await GatewayProcess.token(organization: outbox.organization, user: outbox.user)
    }

    /// Pushes the whole outbox.
    func run() async throws {
        var last: [Draft] = []
        for batch in outbox.batches {
            // the phone lost the record that the last batch was acknowledged
            let body = random.chance(15) ? last + batch : batch
            if random.chance(15) {
                async let other: Void = push(body)
                try await push(body)
                try await other
            } else {
                try await push(body)
            }
            if random.chance(10) { try await push(body, expectingReplay: true) }
            last = batch
            done.advance()
        }
    }

    /// Pushes until a response arrives.
    private func push(_ drafts: [Draft], expectingReplay: Bool = false) async throws {
        let list = drafts.map(\.json).joined(separator: ",")
        let body = #"{"device_id":"\#(outbox.device.lowercased)","mutations":[\#(list)]}"#
        let deadline = ContinuousClock.now + Waiting.limit
        var replica = Int.random(in: 0..<replicas.count, using: &random)
        while true {
            let reply = try? await GatewayProcess.post(
                replicas[replica] + "/v1/mutations",
                token: token,
                body: body,
                within: .seconds(30)
            )
            if let reply, reply.status == 200 { return note(reply, drafts, expectingReplay) }
            if let reply, ![429, 503].contains(reply.status) {
                throw Program.Failure("device \(outbox.device) was answered \(reply.status) \(reply.text)")
            }
            guard .now < deadline else { throw Program.Failure("device \(outbox.device): no answer") }
            setbacks += 1
            replica = (replica + 1) % replicas.count
            // a worker's back-off, but shorter
            try await Task.sleep(for: .milliseconds(Int.random(in: 10...60, using: &random)))
        }
    }

    private func note(_ reply: Reply, _ drafts: [Draft], _ expectingReplay: Bool) {
        let results = reply.results
        if results.map({ $0["id"]?.string ?? "-" }) != drafts.map(\.id) {
            violations.append("other results: \(reply.text)")
        }
        for result in results {
            guard let id = result["id"]?.string, result["status"]?.string == "succeeded",
                let server = result["server_id"]?.string, let version = result["version"]?.int64
            else {
                violations.append(result.text)
                continue
            }
            let acknowledgement = Acknowledgement(serverID: server, version: version)
            if let earlier = acknowledged.updateValue(acknowledgement, forKey: id), earlier != acknowledgement {
                violations.append("\(id) is \(acknowledgement), was \(earlier)")
            }
            if result["replayed"]?.bool == true { continue }
            if expectingReplay || !firsts.insert(id).inserted {
                violations.append("\(id) is executed twice: \(result.text)")
            }
        }
    }
}
