import Foundation
import JSONText
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Answers to batches that are wrong, broken or malicious (product rule 23).
///
/// The upstream honours idempotency keys. So each mutation takes effect once, and gets its own id.
@Suite struct HostileBatchTests {
    /// A defect of the answer to a batch.
    enum Defect: String, CaseIterable, Sendable {
        case wrongIDs, repeatedIDs, missingParts, breaksOff, junk, deepJunk, otherShape, randomBytes, noBody
        case failingParts, tooLarge, largeHeaders, lost, invalidStatus, hugeBodies

        /// Returns the defective answer in place of one with these responses, each of which has the id of its part.
        func answer(_ responses: [(id: String, rest: String)], _ random: inout SeededRandom) -> UpstreamAnswer {
            func list(_ parts: [String]) -> UpstreamAnswer {
                .status(200, #"{"responses":[\#(parts.joined(separator: ","))]}"#)
            }
            func text(_ id: String, _ rest: String) -> String { #"{"id":"\#(id)",\#(rest)}"# }
            let good = responses.map { text($0.id, $0.rest) }
            switch self {
            case .wrongIDs: return list(responses.map { text("x\($0.id)", $0.rest) })
            case .repeatedIDs: return list(good + good.reversed())
            case .missingParts: return list(good.enumerated().filter { $0.offset % 2 == 0 }.map(\.element))
            case .breaksOff: return .response(UpstreamResponse(status: 200, isCutOff: true))
            case .junk: return list(["null", "3", "[]", #""1""#, #"{"id":{"id":"1"},"status":201}"#] + good)
            case .deepJunk:
                let deep = String(repeating: "[", count: 1_500) + String(repeating: "]", count: 1_500)
                return list([deep] + good)
            case .otherShape: return .status(200, #"{"value":[\#(good.joined(separator: ","))]}"#)
            case .randomBytes:
                let bytes = (0..<2_000).map { _ in UInt8.random(in: 0...255, using: &random) }
                return .response(UpstreamResponse(status: 200, json: bytes))
            case .noBody: return .status(204)
            case .failingParts:
                return list(responses.enumerated().map { $0 % 2 == 0 ? good[$0] : text($1.id, #""status":503"#) })
            case .tooLarge: return .status(413)
            case .largeHeaders:
                let large = String(repeating: "x", count: 100_000)
                let headers = #""headers":{"location":"/\#(large)","etag":"\"\#(large)\"","x":"\#(large)"}"#
                return list(responses.map { text($0.id, headers + "," + $0.rest) })
            case .lost: return .unknown("the headers of the response are too large")
            case .invalidStatus:
                let statuses = ["99", "600", "\"201\"", "null", "2e2000", "101"]
                return list(
                    responses.enumerated().map { text($1.id, #""status":\#(statuses[$0 % statuses.count])"#) }
                )
            case .hugeBodies:
                let problem = UnusableBody.tooLong(limit: 1_048_576)
                return .response(UpstreamResponse(status: 200, unusableBody: problem))
            }
        }

        /// Whether the parts of the batch took effect.
        var takesEffect: Bool { self != .tooLarge }
    }

    /// An upstream whose first answers to batches have a defect.
    private final class Upstream: Sendable {
        private struct State {
            var ids: [UUID: Int] = [:]
            var names: [String: [Int]] = [:]
            var defects: Int
            var random: SeededRandom
        }

        private let defect: Defect
        private let state: Mutex<State>

        init(_ defect: Defect, times: Int, _ random: SeededRandom) {
            self.defect = defect
            state = Mutex(State(defects: times, random: random))
        }

        /// The ids of the entities that were created for each name.
        var names: [String: [Int]] { state.withLock { $0.names } }
        var isDone: Bool { state.withLock { $0.defects == 0 } }

        func answer(_ request: UpstreamRequest) -> UpstreamAnswer? {
            guard let body = request.body, let root = (try? JSONTree(parsing: body))?.root else { return nil }
            return state.withLock { state in
                guard request.path == "/$batch" else {
                    let id = Self.create(root, request.idempotencyKey, &state)
                    return .status(201, #"{"id":\#(id)}"#)
                }
                let isBad = state.defects > 0
                if isBad { state.defects -= 1 }
                var responses: [(id: String, rest: String)] = []
                if !isBad || defect.takesEffect {
                    for part in root.value(at: "/requests")?.elements.map({ Array($0) }) ?? [] {
                        guard let key = part.value(at: "/headers/idempotency-key")?.uuid,
                            let payload = part.value(at: "/body"), let id = part.value(at: "/id")?.string
                        else { continue }
                        let made = Self.create(payload, key, &state)
                        responses.append((id, #""status":201,"body":{"id":\#(made)}"#))
                    }
                }
                if isBad { return defect.answer(responses, &state.random) }
                let list = responses.map { #"{"id":"\#($0.id)",\#($0.rest)}"# }
                return .status(200, #"{"responses":[\#(list.joined(separator: ","))]}"#)
            }
        }

        private static func create(_ payload: JSONValue, _ key: UUID, _ state: inout State) -> Int {
            if let id = state.ids[key] { return id }
            let id = 1_000 + state.ids.count
            state.ids[key] = id
            state.names[payload.value(at: "/name")?.string ?? "", default: []].append(id)
            return id
        }
    }

    @Test(arguments: Defect.allCases) func `nothing is lost or created twice`(_ defect: Defect) async throws {
        let seed = Seed()
        let api = Upstream(defect, times: 2, seed.generator)
        let harness = try await BatchDispatchTests.harness(api.answer, most: 16)
        let entries = (0..<20).map { harness.create(payload: #"{"name":"n\#($0)"}"#) }
        try await harness.phone.push(entries)
        // each round is longer than the back-off, and shorter than a lease
        let lane = LaneKey(organization: harness.organization.id, user: harness.phone.user)
        let deadline = ContinuousClock.now + Waiting.limit
        while ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(50))
            var isDone = true
            for entry in entries where try await harness.mutation(entry.id).status != "succeeded" { isDone = false }
            if isDone { break }
            harness.gateway.clock.advance(seconds: 10)
            harness.dispatcher.poll()
        }
        #expect(api.isDone, "\(lane) \(seed)")
        for (index, entry) in entries.enumerated() {
            let mutation = try await harness.mutation(entry.id)
            #expect(mutation.status == "succeeded", "\(mutation.text) \(seed)")
            // the mutation has its own id, although answers were mixed up
            let made = api.names["n\(index)"] ?? []
            #expect(made.count == 1, "\(made) \(seed)")
            #expect(mutation["server_id"]?.int64.map(Int.init) == made.first, "\(mutation.text) \(seed)")
        }
    }

    @Test func `a part with a response is settled although other parts lack theirs`() async throws {
        let api = Upstream(.missingParts, times: 1, Seed().generator)
        let harness = try await BatchDispatchTests.harness(api.answer)
        let entries = (0..<8).map { harness.create(payload: #"{"name":"n\#($0)"}"#) }
        try await harness.phone.push(entries)
        for (index, entry) in entries.enumerated() where index.isMultiple(of: 2) {
            try await harness.mutation(entry.id, is: .succeeded)
        }
        let waiting = try await harness.mutation(entries[1].id, becomes: "waiting") { $0.nextRetryAt != nil }
        #expect(waiting.attempts == 1 && waiting.lastError?.contains("no response for the part") == true)
    }
}
