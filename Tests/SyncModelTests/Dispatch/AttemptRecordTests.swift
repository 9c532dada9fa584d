import Foundation
import JSONText
import Testing

@testable import SyncModel

@Suite struct AttemptRecordTests {
    private static func record(_ sample: Sample, _ answer: UpstreamAnswer, took: Duration = .milliseconds(12)) throws
        -> AttemptRecord?
    {
        let dispatch = try #require(sample.dispatch)
        let outcome = try #require(sample.outcome(answer))
        return AttemptRecord(of: outcome, to: dispatch, answer, sentAt: Sample.now, took: took)
    }

    private static func record(_ sample: Sample, _ status: Int, retryAfter: Double? = nil) throws -> AttemptRecord? {
        try record(
            sample,
            .response(
                UpstreamResponse(
                    status: status,
                    retryAt: retryAfter.map { Sample.now.adding(seconds: $0) },
                    location: nil,
                    etag: nil,
                    json: Array(#"{"id":7,"secret":"s3cret"}"#.utf8)
                )
            )
        )
    }

    /// Normal forwarding costs no row.
    @Test func `records no attempt if the first one succeeds`() throws {
        #expect(try Self.record(Sample(), 201) == nil)
        #expect(try Self.record(Sample.of(.update), 200) == nil)
        #expect(try Self.record(Sample.of(.delete), 404) == nil)
    }

    @Test func `records a success after an earlier attempt`() throws {
        var samples: [Sample] = []
        for change: (inout Sample) -> Void in [
            { $0.attempts = 1 }, { $0.revision = 2 }, { $0.isOutcomeUnknown = true },
        ] {
            var sample = Sample.of(.update)
            change(&sample)
            samples.append(sample)
        }
        for sample in samples {
            let note = try #require(try Self.record(sample, 200))
            #expect(note.result == .succeeded && note.status == 200 && note.error == nil)
            #expect(note.revision == sample.revision && note.sentAt == Sample.now && note.milliseconds == 12)
        }
    }

    @Test func `records the result of an answer`() throws {
        let update = Sample.of(.update)
        #expect(try Self.record(update, 422)?.result == .failed)
        #expect(try Self.record(update, 409)?.result == .conflict)
        #expect(try Self.record(update, 412)?.result == .conflict)
        #expect(try Self.record(Sample.of(.update, .serverWins), 409)?.result == .conflict)
        #expect(try Self.record(update, 503)?.result == .retry)
        #expect(try Self.record(update, 429, retryAfter: 5)?.result == .retry)
        #expect(try Self.record(update, 401)?.result == .held)
        var last = update
        last.attempts = 4
        #expect(try Self.record(last, 503)?.result == .failed)
    }

    @Test func `records the rule that decided, also for a success at the first attempt`() throws {
        let rules = #"""
            [{"status":[409],"then":"succeeded"},{"status":"2xx","where":[{"pointer":"/id","is":7}],"then":"conflict"},
             {"status":[422],"then":"halt"},{"status":[418],"then":"retry"},{"status":[400],"then":"failed"}]
            """#
        func record(_ status: Int, _ operation: SyncModel.Operation = .update) throws -> AttemptRecord {
            var sample = Sample.of(operation)
            sample.upstream?.outcomes = OutcomeRules(stored: try JSONTree(parsing: Array(rules.utf8)).root)
            return try #require(try Self.record(sample, status))
        }
        for (status, result, place) in [
            (409, AttemptRecord.Result.succeeded, 0), (200, .conflict, 1), (422, .failed, 2), (418, .retry, 3),
            (400, .failed, 4),
        ] {
            let note = try record(status)
            #expect(note.result == result && note.rule == "/outcomes/\(place)" && note.error == nil)
            #expect(note.reason == "decided by /outcomes/\(place)" && note.status == Int16(status))
            let stored = AttemptRecord(
                result: note.result,
                revision: note.revision,
                number: note.number,
                sentAt: note.sentAt,
                milliseconds: note.milliseconds,
                status: note.status,
                reason: note.reason
            )
            #expect(stored == note)
        }
        let other = try record(503)
        #expect(other.rule == nil && other.reason == nil)
        var route = EntityRoutes(stored: try JSONTree(parsing: Array(#"{"collection":"/contacts"}"#.utf8)).root)
        #expect(route.has(.create))
        let routes = #"{"update":{"path":"/c/{id}","outcomes":[{"status":200,"then":"failed"}]}}"#
        route = EntityRoutes(stored: try JSONTree(parsing: Array(routes.utf8)).root)
        var settings = try #require(Sample.of(.update).upstream)
        settings.route = route.routes[.update]
        #expect(settings.outcomeRule(status: 200, body: nil)?.place == "/routes/update/outcomes/0")
    }

    @Test func `a reason without an answer is no rule`() {
        let note = AttemptRecord(
            result: .unknown,
            revision: 1,
            number: 1,
            sentAt: nil,
            milliseconds: nil,
            status: nil,
            reason: "decided by /outcomes/0"
        )
        #expect(note.rule == nil && note.error == "decided by /outcomes/0")
    }

    @Test func `attempts are numbered, and uncounted ones have the previous number`() throws {
        var sample = Sample.of(.update)
        sample.attempts = 2
        #expect(try Self.record(sample, 503)?.number == 3)
        #expect(try Self.record(sample, 401)?.number == 2)
    }

    @Test func `distinguishes a missing answer from a failed connection`() throws {
        let update = Sample.of(.update)
        let unknown = try #require(try Self.record(update, .unknown("timed out")))
        #expect(unknown.result == .unknown && unknown.status == nil && unknown.error == "no response: timed out")
        let unsent = try #require(try Self.record(update, .notSent("connection refused")))
        #expect(unsent.result == .retry && unsent.status == nil && unsent.error == "not reached: connection refused")
    }

    @Test func `a request that was never sent is no attempt`() throws {
        #expect(try Self.record(Sample.of(.update), .refused("too long")) == nil)
        #expect(try Self.record(Sample.of(.update), .unready("no key")) == nil)
    }

    @Test func `errors and durations are bounded, and bodies are not stored`() throws {
        let long = String(repeating: "ø", count: 5_000)
        let note = try #require(try Self.record(.of(.update), .unknown(long), took: .seconds(1_000_000_000)))
        #expect(note.error?.count == AttemptRecord.errorLength)
        #expect(note.milliseconds == .max)
        let answered = try #require(try Self.record(.of(.update), 422))
        #expect(!"\(answered)".contains("s3cret"))
    }

    @Test func `records a lost worker's request without a duration`() throws {
        let lost = Outcome(ofLost: Sample.of(.update).mutation, wasSent: true)
        let note = try #require(lost.attempt)
        #expect(note.result == .unknown && note.sentAt == nil && note.milliseconds == nil && note.status == nil)
        #expect(note.error?.isEmpty == false)
        #expect(Outcome(ofLost: Sample.of(.update).mutation, wasSent: false).attempt == nil)
    }
}
