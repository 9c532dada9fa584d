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

    private static func batch(_ count: Int, isOrdered: Bool = false) -> BatchRequest {
        BatchRequest((0..<count).map { request($0) }, isOrdered: isOrdered)
    }

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
        let batch = BatchRequest([Self.request(1), Self.request(2, body: nil)], isOrdered: true)
        let root = try JSONTree(parsing: batch.body).root
        #expect(root.value(at: "/requests")?.elements?.count == 2)
        #expect(root.value(at: "/requests/0/id")?.string == "1" && root.value(at: "/requests/0/dependsOn") == nil)
        #expect(root.value(at: "/requests/0/url")?.string == "/contacts/1%20%C3%BC")
        #expect(root.value(at: "/requests/0/body/n")?.int64 == 1)
        #expect(root.value(at: "/requests/0/headers/content-type")?.string == "application/json")
        #expect(root.value(at: "/requests/1/method")?.string == "DELETE")
        #expect(root.value(at: "/requests/1/dependsOn/0")?.string == "1")
        #expect(root.value(at: "/requests/1/body") == nil)
        for (index, part) in batch.parts.enumerated() {
            let key = root.value(at: "/requests/\(index)/headers/idempotency-key")?.uuid
            #expect(key == part.idempotencyKey)
        }
    }

    @Test func `a batch ends at the limit of parts or bytes, and has one part at least`() {
        let requests = (0..<5).map { Self.request($0, body: String(repeating: "1", count: 1_000)) }
        #expect(BatchRequest.first(3, bytes: .max, of: requests).count == 3)
        #expect(BatchRequest.first(9, bytes: 3_200, of: requests).count == 2)
        #expect(BatchRequest.first(9, bytes: 1, of: requests).count == 1)
        #expect(BatchRequest.first(9, bytes: 1, of: []).isEmpty)
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

    @Test func `a batch that is refused as a whole is split, or sent in parts`() {
        func answer(_ status: Int, _ count: Int) -> BatchAnswer {
            BatchAnswer(.status(status), to: Self.batch(count), now: Self.now)
        }
        if case .split = answer(413, 2) {} else { Issue.record("was not split") }
        for status in [400, 404, 405, 413, 415] {
            if case .unsupported(let reason) = answer(status, 1) {
                #expect(reason.contains("\(status)"))
            } else {
                Issue.record("\(status) is an answer to the parts")
            }
        }
        for status in [401, 302, 429, 500, 503] {
            guard case .parts(let parts) = answer(status, 3) else {
                Issue.record("\(status) is no answer to the parts")
                continue
            }
            #expect(parts.map(Self.line) == Array(repeating: "\(status) -", count: 3))
        }
        guard case .parts(let lost) = BatchAnswer(.unknown("x"), to: Self.batch(2), now: Self.now) else { return }
        #expect(lost.map(Self.line) == ["unknown", "unknown"])
    }

    /// A batch that an upstream takes up to a size is split until it fits: each part is in one of the batches, in order.
    @Test func `splitting keeps each part and its order`() {
        let seed = Seed()
        var random = seed.generator
        for _ in 0..<100 {
            let batch = Self.batch(Int.random(in: 1...200, using: &random))
            let limit = Int.random(in: 1...50, using: &random)
            var (waiting, sent) = ([batch], [UUID]())
            while let next = waiting.popLast() {
                if next.parts.count > limit, let halves = next.halves {
                    waiting += [halves.1, halves.0]
                } else {
                    sent += next.parts.map(\.idempotencyKey)
                }
            }
            #expect(sent == batch.parts.map(\.idempotencyKey), "\(seed)")
        }
    }
}

extension UpstreamAnswer {
    fileprivate static func status(_ status: Int) -> Self { .response(UpstreamResponse(status: status)) }
}
