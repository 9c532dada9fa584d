import Foundation
import JSONText
import TestSupport
import Testing

@testable import SyncModel

@Suite struct BatchRequestTests {
    private static let now = Sample.now

    private static func request(_ number: Int, body: String? = #"{"n":1}"#) -> UpstreamRequest {
        UpstreamRequest(
            organization: Sample.lane.organization,
            user: Sample.lane.user,
            method: body == nil ? "DELETE" : "POST",
            path: "/contacts/\(number) ü",
            body: body.map { Array($0.utf8) },
            idempotencyKey: UUID(),
            timeout: .seconds(30)
        )
    }

    private static func batch(_ count: Int) -> BatchRequest { BatchRequest((0..<count).map { request($0) }) }

    private static func parts(_ json: String, of count: Int, isCutOff: Bool = false) -> [UpstreamAnswer] {
        let response = UpstreamResponse(status: 200, json: Array(json.utf8), isCutOff: isCutOff)
        guard case .parts(let parts) = BatchAnswer(.response(response), to: batch(count), now: now) else { return [] }
        return parts
    }

    private static func line(_ answer: UpstreamAnswer) -> String {
        switch answer {
        case .response(let response):
            "\(response.status) \(response.json.map { String(decoding: $0, as: UTF8.self) } ?? "-")"
        case .unknown: "unknown"
        case .notSent: "not sent"
        case .refused: "refused"
        case .unready: "unready"
        }
    }

    @Test func `each part has its id, path, headers with its key, and body`() throws {
        let batch = BatchRequest([Self.request(1), Self.request(2, body: nil)])
        let root = try JSONTree(parsing: batch.body).root
        #expect(root.value(at: "/requests")?.elements?.count == 2)
        #expect(root.value(at: "/requests/0/id")?.string == "1" && root.value(at: "/requests/0/dependsOn") == nil)
        #expect(root.value(at: "/requests/0/url")?.string == "/contacts/1%20%C3%BC")
        #expect(root.value(at: "/requests/0/body/n")?.int64 == 1)
        #expect(root.value(at: "/requests/0/headers/content-type")?.string == "application/json")
        #expect(root.value(at: "/requests/1/method")?.string == "DELETE")
        #expect(root.value(at: "/requests/1/body") == nil)
        for (index, part) in batch.parts.enumerated() {
            let key = root.value(at: "/requests/\(index)/headers/idempotency-key")?.uuid
            #expect(key == part.idempotencyKey)
        }
    }

    @Test func `a part with a repeated member has an unknown outcome`() {
        let sound = #"{"id":"1","status":201}"#
        for part in [
            #"{"id":"2","status":201,"status":400}"#, #"{"id":"2","id":"2","status":201}"#,
            #"{"id":"2","status":201,"body":{},"body":{}}"#, #"{"id":"2","status":201,"headers":{},"headers":{}}"#,
        ] {
            let parts = Self.parts(#"{"responses":[\#(sound),\#(part)]}"#, of: 2)
            #expect(parts.map(Self.line) == ["201 -", "unknown"], "\(part)")
        }
        let whole = Self.parts(#"{"responses":[\#(sound)],"responses":[]}"#, of: 1)
        #expect(whole.map(Self.line) == ["unknown"])
        let other = Self.parts(#"{"responses":[{"id":"1","status":201,"x":1,"x":2}]}"#, of: 1)
        #expect(other.map(Self.line) == ["201 -"])
    }

    @Test func `a part's body is at most as long as the answer to a single request`() throws {
        let limit = UpstreamResponse.maximumBodyBytes
        func part(_ id: Int, _ bytes: Int) -> String {
            #"{"id":"\#(id)","status":201,"body":"\#(String(repeating: "x", count: bytes - 2))"}"#
        }
        let answers = Self.parts(#"{"responses":[\#(part(1, limit)),\#(part(2, limit + 1))]}"#, of: 2)
        guard case .response(let first) = answers[0], case .response(let second) = answers[1] else {
            Issue.record("no responses")
            return
        }
        #expect(first.json?.count == limit && first.unusableBody == nil)
        #expect(second.json == nil && second.unusableBody?.isTooLong == true)
    }

    @Test func `the request is in the first recorded trace of its parts, with links to the others`() throws {
        let recorded = (0..<3).map { _ in TraceContext(sampled: true) }
        let unrecorded = TraceContext()
        func request(_ traces: [TraceContext?]) -> UpstreamRequest {
            let parts = traces.enumerated().map { number, trace in
                var part = Self.request(number)
                part.trace = trace
                return part
            }
            return BatchRequest(parts).request(to: UpstreamBatch(), like: parts[0])
        }
        let one = request([unrecorded, nil, recorded[0], recorded[1], recorded[0], recorded[1], recorded[2]])
        #expect(one.trace == recorded[0] && one.linkedTraces == [recorded[1], recorded[2]])
        let other = request([unrecorded, TraceContext()])
        #expect(other.trace == unrecorded && other.linkedTraces.isEmpty)
    }

    private static func sizes(_ samples: [Sample], _ most: Int) throws -> [Int] {
        var batch = UpstreamBatch()
        batch.maxRequests = most
        return BatchRequest.groups(try samples.map { try #require($0.dispatch) }, by: batch).map(\.count)
    }

    @Test func `a batch ends at the limit of parts or bytes, and has one part at least`() throws {
        let usual = Sample()
        #expect(try Self.sizes(Array(repeating: usual, count: 5), 3) == [3, 2])
        #expect(try Self.sizes([], 3).isEmpty)
        var large = Sample()
        large.payload = #"{"text":"\#(String(repeating: "x", count: 400_000))"}"#
        #expect(try Self.sizes(Array(repeating: large, count: 5), 100) == [2, 2, 1])
    }

    @Test func `each attempt halves the batches of a mutation`() throws {
        var repeated = Sample()
        repeated.attempts = 1
        #expect(try Self.sizes(Array(repeating: repeated, count: 6), 8) == [4, 2])
        repeated.attempts = 4
        #expect(try Self.sizes(Array(repeating: repeated, count: 3), 8) == [1, 1, 1])
        #expect(try Self.sizes([Sample(), Sample(), repeated, Sample()], 8) == [2, 1, 1])
        var held = Sample()
        held.hold = AuthBackoff(count: 2, since: Self.now)
        #expect(try Self.sizes(Array(repeating: held, count: 3), 8) == [2, 1])
    }

    @Test func `a mutation of the built-in store is in no batch`() throws {
        var builtIn = Sample()
        builtIn.isForwarded = false
        let groups = try Self.sizes([Sample(), builtIn, Sample()], 8)
        #expect(groups.sorted() == [1, 2])
    }

    @Test func `the request of a batch asks to continue after a part that fails`() {
        let batch = Self.batch(2)
        let request = batch.request(to: UpstreamBatch(), like: batch.parts[0])
        #expect(
            request.method == "POST" && request.path == "/$batch" && request.headers["prefer"] == "continue-on-error"
        )
        #expect(request.user == batch.parts[0].user && request.body == batch.body)
        #expect(!batch.parts.map(\.idempotencyKey).contains(request.idempotencyKey))
        #expect(request.idempotencyKey == batch.request(to: UpstreamBatch(), like: batch.parts[1]).idempotencyKey)
        let one = BatchRequest([batch.parts[0]]).request(to: UpstreamBatch(), like: batch.parts[0])
        #expect(![request.idempotencyKey, batch.parts[0].idempotencyKey].contains(one.idempotencyKey))
    }

    @Test func `each part is settled by its own response, in any order`() {
        let parts = Self.parts(
            #"""
            {"responses":[{"id":"2","status":422,"body":{"error":"x"}},
             {"id":"1","status":201,"headers":{"Location":"/contacts/7","ETag":"\"1\""},"body":{"id":7}},
             {"id":"3","status":429,"headers":{"Retry-After":"60"}}]}
            """#,
            of: 3
        )
        #expect(parts.map(Self.line) == [#"201 {"id":7}"#, #"422 {"error":"x"}"#, "429 -"])
        guard case .response(let created) = parts[0], case .response(let late) = parts[2] else { return }
        #expect(created.location == "/contacts/7" && created.etag == #""1""#)
        #expect(late.retryAt == Self.now.adding(seconds: 60))
    }

    @Test func `a part without one clear response has an unknown outcome`() {
        let parts = Self.parts(
            #"{"responses":[{"id":"1","status":201},{"id":"1","status":422},{"id":"9","status":201},{"id":3,"status":200},{"id":"4","status":"200"},{"id":"5","status":424}]}"#,
            of: 5
        )
        #expect(parts.map(Self.line) == ["unknown", "unknown", "unknown", "unknown", "not sent"])
        for json in [#"{"value":[]}"#, "[]", #"{"responses":{}}"#] {
            #expect(Self.parts(json, of: 2).map(Self.line) == ["unknown", "unknown"], "\(json)")
        }
        let cut = UpstreamResponse(status: 200, isCutOff: true)
        if case .parts(let parts) = BatchAnswer(.response(cut), to: Self.batch(2), now: Self.now) {
            #expect(parts.map(Self.line) == ["unknown", "unknown"])
        }
    }

    @Test func `headers of a part obey the rules of headers of a response`() {
        let long = String(repeating: "x", count: 9_000)
        let parts = Self.parts(
            #"""
            {"responses":[{"id":"1","status":200,"headers":{"ETag":"*","Location":"/\#(long)"}},
             {"id":"2","status":200,"headers":{"etag":"\"1\", \"2\"","content-location":"/contacts/7"}},
             {"id":"3","status":200,"headers":{"Location":"/contacts/1","location":"/contacts/2","etag":7}},
             {"id":"4","status":200,"headers":[]},{"id":"5","status":200,"headers":{"eTag":"W/\"1\""}},
             {"id":"6","status":409,"headers":{"ETag":"\"1\" \t","Location":"/c/1 ","location":"\t/c/1"}},
             {"id":"7","status":409,"headers":{"ETag":"\"a\tb\"","content-type":"Application/Problem+JSON ; a=b"}}]}
            """#,
            of: 7
        )
        let responses = parts.compactMap { if case .response(let response) = $0 { response } else { nil } }
        #expect(responses.map(\.etag) == [nil, nil, nil, nil, #"W/"1""#, #""1""#, nil])
        #expect(responses.map(\.location) == [nil, "/contacts/7", nil, nil, nil, "/c/1", nil])
        #expect(responses.map(\.isProblem) == [false, false, false, false, false, false, true])
    }

    @Test func `for any bytes in the response, each part gets one answer`() {
        let seed = Seed()
        var random = seed.generator
        let good = Array(
            #"{"responses":[{"id":"1","status":201,"headers":{"etag":"\"1\""},"body":{"id":7}},{"id":"2","status":204},{"id":"3","status":422,"body":[]}]}"#
                .utf8
        )
        for _ in 0..<3_000 {
            var bytes = good
            for _ in 0..<Int.random(in: 1...6, using: &random) where !bytes.isEmpty {
                let place = bytes.indices.randomElement(using: &random) ?? 0
                switch Int.random(in: 0..<4, using: &random) {
                case 0: bytes[place] = .random(in: 0...255, using: &random)
                case 1: bytes.remove(at: place)
                case 2: bytes.insert(contentsOf: bytes[place...].prefix(20), at: place)
                default: bytes = Array(bytes[..<place])
                }
            }
            let response = UpstreamResponse(status: 200, json: bytes)
            guard case .parts(let parts) = BatchAnswer(.response(response), to: Self.batch(3), now: Self.now) else {
                Issue.record("\(bytes) gave no answers for the parts; \(seed)")
                continue
            }
            #expect(parts.count == 3, "\(seed)")
        }
        let deep = String(repeating: "[", count: 2_000) + String(repeating: "]", count: 2_000)
        for json in [deep, #"{"responses":\#(deep)}"#, #"{"responses":[[],3,null,"1",{"id":{"id":"1"}}]}"#] {
            #expect(Self.parts(json, of: 2).map(Self.line) == ["unknown", "unknown"])
        }
    }

    @Test func `a batch that is refused as a whole is split, or its parts are sent as single requests`() {
        func answer(_ status: Int, _ count: Int) -> BatchAnswer {
            BatchAnswer(.status(status), to: Self.batch(count), now: Self.now)
        }
        for status in [409, 412, 413, 423, 424] {
            if case .split = answer(status, 2) {} else { Issue.record("was not split after \(status)") }
        }
        for status in [400, 402, 403, 404, 405, 409, 412, 413, 415, 451, 501] {
            if case .unsupported(let reason) = answer(status, 1) {
                #expect(reason.contains("\(status)"))
            } else {
                Issue.record("\(status) was not taken as a refusal of batches")
            }
        }
        for status in [401, 302, 429, 500, 503] {
            guard case .parts(let parts) = answer(status, 3) else {
                Issue.record("\(status) gave no answers for the parts")
                continue
            }
            #expect(parts.map(Self.line) == Array(repeating: "\(status) -", count: 3))
        }
        if case .unsupported = BatchAnswer(.refused("x"), to: Self.batch(2), now: Self.now) {
        } else {
            Issue.record("a batch that cannot be sent was not taken as a refusal of batches")
        }
        guard case .parts(let lost) = BatchAnswer(.unknown("x"), to: Self.batch(2), now: Self.now) else { return }
        #expect(lost.map(Self.line) == ["unknown", "unknown"])
    }
}

/// An answer to a whole batch settles none of its parts (product rule 23).
@Suite struct WholeAnswerTests {
    @Test func `the parts get no id, document, ETag or body of the whole answer`() throws {
        let parts = (0..<2).map { _ in Sample().request }
        let batch = BatchRequest(try parts.map { try #require($0) })
        for status in 300...599 {
            let response = UpstreamResponse(
                status: status,
                location: "/contacts/77",
                etag: #""1""#,
                json: Array(#"{"id":77}"#.utf8)
            )
            guard case .parts(let answers) = BatchAnswer(.response(response), to: batch, now: Sample.now) else {
                continue
            }
            for case .response(let part) in answers {
                #expect(part.isOfBatch && part.json == nil && part.etag == nil, "\(status)")
                for strategy in [ConflictResolution.manual, .serverWins, .clientWins] {
                    var sample = Sample()
                    sample.strategy = strategy
                    let outcome = try #require(sample.outcome(.response(part), othersSucceeded: true))
                    #expect(outcome.status == .pending && outcome.serverID == nil, "\(status)")
                    #expect(outcome.nextRetryAt != nil && outcome.document == nil && outcome.override == nil)
                }
            }
        }
    }

    @Test func `no outcome rule applies to the whole answer`() throws {
        var sample = Sample()
        let rules =
            #"[{"status":[302,401,429],"then":"succeeded"},{"status":"5xx","where":[{"pointer":"/a","not":1}],"then":"halt"}]"#
        sample.upstream?.outcomes = OutcomeRules(stored: try JSONTree(parsing: Array(rules.utf8)).root)
        for status in [302, 401, 429, 503] {
            var whole = UpstreamResponse(status: status)
            whole.isOfBatch = true
            let outcome = try #require(sample.outcome(.response(whole)))
            #expect(outcome.status == .pending && !outcome.haltsLane, "\(status)")
            #expect(outcome.lastError?.contains("\(status) to the batch") == true, "\(outcome.lastError ?? "-")")
        }
    }
}

extension UpstreamAnswer {
    fileprivate static func status(_ status: Int) -> Self { .response(UpstreamResponse(status: status)) }
}
