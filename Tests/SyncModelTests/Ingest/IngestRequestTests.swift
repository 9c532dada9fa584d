import Foundation
import SyncModel
import Testing

@Suite struct IngestRequestTests {
    private func request(_ body: String, _ limits: IntakeLimits = IntakeLimits()) throws(Problem) -> IngestRequest {
        try IngestRequest(body: Array(body.utf8), limits: limits)
    }

    private func problem(_ event: String) throws -> Problem? {
        let entry = try #require(request(#"{"events":[\#(event)]}"#).entries.first)
        if case .failure(let problem) = entry.event { return problem }
        return nil
    }

    private let good = #""event_id":"e1","entity_type":"contact","id":7,"version":3"#

    @Test func `parses an event with all its members`() throws {
        let (owner, key) = (UUID(), UUID())
        let body = """
            {"events":[{\(good),"operation":"upsert","document":{"a":[1, 2.50]},"occurred_at":"2026-11-20T07:00:00Z",
            "owner":"\(owner)","causing_key":"\(key)"},
            {"event_id":"é","entity_type":"note","id":"x","occurred_at":"2026-11-20T07:00:00Z","operation":"delete",
            "version":null,"document":null,"causing_key":"not ours"}]}
            """
        let entries = try request(body).entries
        let first = try entries[0].event.get()
        #expect(first.entityID == ServerID(7) && first.mark.version == 3 && first.mark.occurredAt != nil)
        #expect(first.document.map { String(decoding: $0, as: UTF8.self) } == #"{"a":[1, 2.50]}"#)
        #expect(first.owner == owner && first.causingKey == key)
        let second = try entries[1].event.get()
        #expect(second.id == "é" && second.mark.version == nil && second.causingKey == nil && second.document == nil)
    }

    @Test(arguments: [
        (#"{"#, ProblemCode.invalidJSON), ("[]", .invalidRequest), ("{}", .invalidRequest),
        (#"{"events":{}}"#, .invalidRequest), (#"{"events":[],"events":[]}"#, .invalidRequest),
        (#"{"events":[],"more":1}"#, .invalidRequest), (#"{"events":[1,2,3]}"#, .payloadTooLarge),
    ])
    func `a wrong envelope refuses the batch`(body: String, code: ProblemCode) {
        var limits = IntakeLimits()
        limits.mutations = 2
        #expect { _ = try request(body, limits) } throws: { ($0 as? Problem)?.code == code }
    }

    @Test(arguments: [
        ("7", [""]),
        ("{}", ["/event_id", "/entity_type", "/id", "/operation", "/version"]),
        (
            #"{"event_id":"","entity_type":"X","id":1.5,"version":-1,"operation":"merge"}"#,
            ["/event_id", "/entity_type", "/id", "/version", "/operation"]
        ),
        (#"{"event_id":"a\u0001","entity_type":"x","id":1,"version":1,"operation":"delete"}"#, ["/event_id"]),
        (
            #"{"event_id":"a","entity_type":"x","id":1,"version":9223372036854775808,"operation":"delete"}"#,
            ["/version"]
        ),
        (#"{"event_id":"a","entity_type":"x","id":1,"version":1,"operation":"delete","document":{}}"#, ["/document"]),
        (#"{"event_id":"a","entity_type":"x","id":1,"version":1,"operation":"patch"}"#, ["/document"]),
        (#"{"event_id":"a","entity_type":"x","id":1,"version":1,"operation":"upsert","document":[]}"#, ["/document"]),
        (#"{"event_id":"a","entity_type":"x","id":1,"occurred_at":"today","operation":"delete"}"#, ["/occurred_at"]),
        (
            #"{"event_id":"a","entity_type":"x","id":1,"version":1,"operation":"delete","owner":"me","causing_key":1}"#,
            ["/owner", "/causing_key"]
        ),
        (#"{"event_id":"a","entity_type":"x","id":1,"version":1,"operation":"delete","why/so":1}"#, ["/why~1so"]),
        (#"{"event_id":"a","event_id":"b","entity_type":"x","id":1,"version":1,"operation":"delete"}"#, ["/event_id"]),
        (
            #"{"event_id":"a","entity_type":"x","id":1,"version":1,"operation":"upsert","document":{"a":1,"a":2}}"#,
            ["/document/a"]
        ),
    ])
    func `reports all defects of an event`(event: String, pointers: [String]) throws {
        let found = try #require(try problem(event))
        #expect(found.code == .validationFailed)
        #expect(found.errors.map(\.pointer) == pointers.map { "/events/0" + $0 }, "\(found.errors)")
    }

    /// Unknown members, repeated members, and strings that cannot be stored. Each event has at least 50 errors.
    private static let invalidMembers: [String] = {
        let unknown: [String] = (0..<60).map { "\"m\($0)\":1" }
        let repeated = [String](repeating: #""event_id":"e""#, count: 60)
        let texts = [String](repeating: #""\u0000""#, count: 60)
        return [
            unknown.joined(separator: ","), repeated.joined(separator: ","),
            #""document":[\#(texts.joined(separator: ","))]"#,
        ]
    }()

    @Test(arguments: invalidMembers)
    func `a batch of invalid events lists a limited number of errors in total`(members: String) throws {
        let events = (0..<400).map { _ in "{\(good),\(members)}" }.joined(separator: ",")
        let problems = try request(#"{"events":[\#(events)]}"#).entries.compactMap { entry in
            if case .failure(let problem) = entry.event { problem } else { nil }
        }
        #expect(problems.count == 400)
        #expect(problems[0].errors.count == ErrorBounds.perEntry && problems[399].errors.count == 1)
        #expect(problems.reduce(0) { $0 + $1.errors.count } <= ErrorBounds.perRequest + 400)
        #expect(problems.allSatisfy { $0.errors.count + $0.omittedErrors >= 50 })
        #expect(problems.allSatisfy { $0.detail.hasSuffix(" (and \($0.errors.count + $0.omittedErrors - 1) more)") })
    }

    @Test func `a document larger than a stored document may be is refused under every limit of payloads`() throws {
        var limits = IntakeLimits()
        (limits.bodyBytes, limits.payloadBytes) = (4_194_304, 4_194_304)
        for (count, isValid) in [(1_048_576 - 8, true), (1_048_576 - 7, false)] {
            let document = #"{"a":"\#(String(repeating: "x", count: count))"}"#
            let body = #"{"events":[{\#(good),"operation":"upsert","document":\#(document)}]}"#
            let entry = try #require(request(body, limits).entries.first)
            let isAccepted = (try? entry.event.get()) != nil
            #expect(isAccepted == isValid)
        }
    }

    @Test func `documents have the limits of payloads`() throws {
        var limits = IntakeLimits()
        limits.payloadBytes = 20
        let long = #"{"events":[{\#(good),"operation":"upsert","document":{"a":"0123456789abcdef"}}]}"#
        let entry = try #require(request(long, limits).entries.first)
        #expect(entry.eventID == "e1")
        guard case .failure(let problem) = entry.event else { return #expect(Bool(false)) }
        #expect(problem.errors.map(\.pointer) == ["/events/0/document"])
        #expect(problem.detail.contains("document has"))
    }

    // MARK: - Tokens

    @Test func `parses a service token from its text`() throws {
        let token = ServiceToken(organization: UUID(), id: UUID())
        #expect(token.text.hasPrefix("slt_") && token.text.utf8.count == 90)
        let read = try #require(ServiceToken(parsing: token.text))
        #expect(read == token && read.matches(token.secretHash))
        #expect(!ServiceToken(organization: token.organization, id: token.id).matches(token.secretHash))
        for other in ["", "slt_", token.text + "A", String(token.text.dropLast()), "SLT_" + token.text.dropFirst(4)] {
            #expect(ServiceToken(parsing: other) == nil, "\(other)")
        }
        // the last digit has four unused bits, but only one text is valid for a token
        let last = try #require(token.text.last)
        let others = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".filter { $0 != last }
        #expect(
            others.allSatisfy { other in
                ServiceToken(parsing: token.text.dropLast() + String(other)).map { $0 != token } ?? true
            }
        )
    }
}
