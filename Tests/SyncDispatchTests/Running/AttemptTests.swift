import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import OperatorsFeature
@testable import SyncDispatch
@testable import SyncStore

/// The history of a mutation's attempts, and its explanation.
@Suite struct AttemptTests {
    private static func rows(_ harness: DispatcherHarness, _ id: UUID) async throws -> [String] {
        let rows = try await harness.gateway.read(
            """
            SELECT concat_ws(' ', ordinal, revision, number, outcome, coalesce(status::text, error)) FROM attempts
            WHERE organization_id = '\(harness.organization.id)' AND mutation_id = '\(id)' ORDER BY ordinal
            """
        )
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }

    private static func mutationHistory(_ harness: DispatcherHarness, _ id: UUID) async throws -> MutationHistory {
        let user = harness.phone.user
        let organization = try await harness.gateway.known(harness.organization.id)
        return try #require(
            try await harness.gateway.store.stories.mutationHistory(of: id, organization: organization, user: user)
        )
    }

    @Test func `a success at the first attempt has no history`() async throws {
        let harness = try await DispatcherHarness()
        let create = harness.create()
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        #expect(try await Self.rows(harness, create.id).isEmpty)
        #expect(try await Self.mutationHistory(harness, create.id).attempts.isEmpty)
    }

    @Test func `records every unsuccessful attempt with its answer`() async throws {
        let answers: [UpstreamAnswer?] = [
            .status(503, #"{"secret":"of the upstream"}"#), .notSent("connection refused"), .unknown("timed out"),
            .status(401), nil,
        ]
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, seen in seen < answers.count ? answers[seen] : nil }
        )
        let create = harness.create()
        try await harness.phone.push([create])
        for count in 1..<answers.count {
            try await waitUntil("attempt \(count)") { try await Self.rows(harness, create.id).count == count }
            try await waitUntil("the lane is released") { try await harness.lane().lease.owner == nil }
            harness.gateway.clock.advance(seconds: 3_600)
        }
        try await harness.mutation(create.id, is: .succeeded)
        #expect(
            try await Self.rows(harness, create.id) == [
                "1 1 1 retry 503", "2 1 2 retry not reached: connection refused",
                "3 1 3 unknown no response: timed out",
                "4 1 3 held 401", "5 1 4 succeeded 201",
            ]
        )
        let mutationHistory = try await Self.mutationHistory(harness, create.id)
        #expect(mutationHistory.attempts.map(\.note.result) == [.retry, .retry, .unknown, .held, .succeeded])
        #expect(mutationHistory.attempts.allSatisfy { $0.note.sentAt != nil && $0.note.milliseconds != nil })
    }

    @Test func `the history and the explanation name the outcome rule of each attempt`() async throws {
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, seen in
                request.method == "POST"
                    ? .status(201, #"{"id":5}"#) : seen == 0 ? .status(418, "{}") : .status(404, "{}")
            }
        )
        let rules = #"[{"status":[201,404],"then":"succeeded"},{"status":[418],"then":"retry"}]"#
        let connection = try await harness.gateway.database.connect()
        try await connection.execute(script: "UPDATE upstreams SET outcomes = '\(rules)'")
        connection.close()
        harness.gateway.store.catalog.invalidate(harness.organization.id)
        let create = harness.create()
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        #expect(try await Self.mutationHistory(harness, create.id).attempts.map(\.note.rule) == ["/outcomes/0"])
        let update = harness.change("update", server: "5", payload: #"{"a":1}"#)
        try await harness.phone.push([update])
        try await waitUntil("the first attempt") { try await Self.rows(harness, update.id).count == 1 }
        try await waitUntil("the lane is released") { try await harness.lane().lease.owner == nil }
        harness.gateway.clock.advance(seconds: 3_600)
        try await harness.mutation(update.id, is: .succeeded)
        let attempts = try await Self.mutationHistory(harness, update.id).attempts
        #expect(attempts.map(\.note.rule) == ["/outcomes/1", "/outcomes/0"])
        #expect(attempts.map(\.note.result) == [.retry, .succeeded] && attempts.allSatisfy { $0.note.error == nil })
        let explanation = try await harness.gateway.store.explainer.explanation(
            of: harness.phone.user,
            in: harness.organization,
            mutation: update.id,
            device: nil
        )
        #expect(explanation.findings[0].sentence.hasSuffix(" The outcome rule /outcomes/0 decided the last attempt."))
    }

    @Test func `keeps the last twenty attempts`() async throws {
        let harness = try await DispatcherHarness(upstream: FakeUpstream { _, _ in .status(500) })
        let create = harness.create(extra: ["max_attempts": "25"])
        try await harness.phone.push([create])
        for attempt in 1...25 {
            try await harness.mutation(create.id, becomes: "tried \(attempt) times") {
                $0["attempt_count"]?.int64 == Int64(attempt) && $0.status != "in_flight"
            }
            harness.gateway.clock.advance(seconds: 86_400)
        }
        try await harness.mutation(create.id, is: .failed)
        let rows = try await Self.rows(harness, create.id)
        #expect(rows.count == 20 && rows.first == "6 1 6 retry 500" && rows.last == "25 1 25 failed 500", "\(rows)")
        // a person's retry continues the ordinals, but numbers its attempts from 1 again
        _ = try await harness.gateway.store.settling.retry(
            create.id,
            RetryRequest(),
            organization: harness.organization,
            user: harness.phone.user
        )
        try await waitUntil("one more") { try await Self.rows(harness, create.id).last == "26 1 1 retry 500" }
        #expect(try await Self.rows(harness, create.id).count == 20)
    }

    @Test func `a mutation's history marks the rewritten ids in path and payload`() async throws {
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in request.method == "PATCH" ? .status(422, #"{"no":"way"}"#) : nil }
        )
        let (contact, note) = (UUID(), UUID())
        let creates = [harness.create(local: contact), harness.create("note", local: note)]
        let update = harness.change(
            "update",
            "note",
            local: note,
            payload: #"{"of":["\#(contact.lowercased)"],"title":"x"}"#
        )
        try await harness.phone.push(creates + [update])
        try await harness.mutation(update.id, is: .failed)
        let mutationHistory = try await Self.mutationHistory(harness, update.id)
        let sent = try #require(mutationHistory.sent)
        #expect(sent.request.method == "PATCH" && sent.request.path == "/notes/2")
        #expect(String(decoding: sent.request.body ?? [], as: UTF8.self) == #"{"of":[1],"title":"x"}"#)
        #expect(sent.baseURL == "http://upstream.invalid")
        let marks = sent.rewritten.map { "\($0.pointer) \($0.clientID.text) \($0.serverID.text) \($0.entityType)" }
        #expect(marks == ["endpoint \(note.lowercased) 2 note", "/of/0 \(contact.lowercased) 1 contact"], "\(marks)")
        #expect(sent.idempotencyKey == harness.upstream.requests.last?.idempotencyKey)
        #expect(
            mutationHistory.attempts.map(\.note.status) == [422]
                && mutationHistory.attempts.map(\.note.result) == [.failed]
        )
        #expect(CurlCommand(sent).text.hasPrefix("curl -X PATCH 'http://upstream.invalid/notes/2' -H "))
        #expect(mutationHistory.history.map(\.operation) == [.create])

        // the references of a finished mutation are deleted; each id in its content that has a server id counts as one
        let done = harness.create("note", payload: #"{"of":"\#(contact.lowercased)"}"#)
        try await harness.phone.push([done])
        try await harness.mutation(done.id, is: .succeeded)
        let past = try await Self.mutationHistory(harness, done.id)
        #expect(past.sent?.request.path == "/notes")
        #expect(past.sent?.rewritten.map(\.pointer) == ["/of"])
    }

    @Test func `does not return the history of another user's mutation`() async throws {
        let harness = try await DispatcherHarness()
        let create = harness.create()
        try await harness.phone.push([create])
        let other = try await harness.gateway.organization()
        for (organization, user) in [(harness.organization, UUID()), (other, harness.phone.user)] {
            let mutationHistory = try await harness.gateway.store.stories.mutationHistory(
                of: create.id,
                organization: organization,
                user: user
            )
            #expect(mutationHistory == nil)
        }
    }
}
