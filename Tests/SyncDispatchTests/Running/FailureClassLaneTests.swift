import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// A mutation's row contains the reason why the mutation is stuck, in addition to the problem. If a gateway dies, the
/// next one records its attempt.
@Suite struct FailureClassLaneTests {
    /// The rows of a mutation, the first attempt first.
    private static func attempts(_ harness: DispatcherHarness, _ id: UUID) async throws -> [String] {
        let rows = try await harness.gateway.read(
            """
            SELECT concat_ws(' ', ordinal, slot, revision, number, outcome, coalesce(status::text, '-'), error)
            FROM attempts WHERE organization_id = '\(harness.organization.id)' AND user_id = '\(harness.phone.user)'
                AND mutation_id = '\(id)'
            ORDER BY ordinal
            """
        )
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }

    private static func mark(_ harness: DispatcherHarness, _ id: UUID) async throws -> String {
        try await harness.gateway.read(
            """
            SELECT concat_ws(' ', coalesce(error_code, '-'), coalesce(error_status::text, '-'),
                CASE WHEN stuck_at = changed_at THEN 'since then' WHEN stuck_at IS NULL THEN '-' ELSE 'else' END)
            FROM mutations WHERE organization_id = '\(harness.organization.id)' AND id = '\(id)'
            """
        ).read(0, 0, as: String.self)
    }

    @Test func `a success at the first attempt writes no row`() async throws {
        let harness = try await DispatcherHarness()
        let entries = [harness.create(), harness.create("note"), harness.change("delete", server: "7")]
        try await harness.phone.push(entries)
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        #expect(try await harness.gateway.count("attempts", of: harness.organization.id) == 0)
        #expect(try await Self.mark(harness, entries[0].id) == "- - -")
    }

    @Test func `a person's retry continues the ordinals and removes the mark`() async throws {
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { request, _ in request.text.contains(#""bad""#) ? .status(422) : nil }
        )
        let create = harness.create(payload: #"{"title":"bad"}"#)
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .failed)
        #expect(try await Self.mark(harness, create.id) == "upstream_rejected 422 since then")
        let edit = try RetryRequest(body: Array(#"{"payload":{"title":"good"}}"#.utf8), limits: IntakeLimits())
        _ = try await harness.gateway.store.settling.retry(
            create.id,
            edit,
            organization: harness.organization,
            user: harness.phone.user
        )
        try await harness.mutation(create.id, is: .succeeded)
        #expect(try await Self.attempts(harness, create.id) == ["1 1 1 1 failed 422", "2 2 2 1 succeeded 201"])
        #expect(try await Self.mark(harness, create.id) == "- - -")
    }

    @Test func `records and marks a conflict`() async throws {
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, _ in .status(409, #"{"id":7,"secret":"s3cret"}"#) }
        )
        let update = harness.change("update", server: "7", payload: #"{"title":"x"}"#)
        try await harness.phone.push([update])
        try await harness.mutation(update.id, is: .conflict)
        #expect(try await Self.attempts(harness, update.id) == ["1 1 1 1 conflict 409"])
        #expect(try await Self.mark(harness, update.id) == "conflict 409 since then")
    }

    @Test func `if a gateway dies, the next one records its attempt`() async throws {
        let gate = Gate()
        let harness = try await DispatcherHarness(
            upstream: FakeUpstream { _, seen in
                if seen == 0 { await gate.pass() }
                return seen == 0 ? .status(422) : nil
            }
        )
        let create = harness.create()
        try await harness.phone.push([create])
        await gate.arrivals(1)
        let sentAt = harness.gateway.clock.now
        let other = try await Gateway(replicaOf: harness.gateway)
        for clock in [harness.gateway.clock, other.clock] { clock.advance(seconds: 121) }
        let helper = Helper(other, harness.upstream)
        try await harness.mutation(create.id, is: .succeeded)
        gate.open()
        await harness.shutDown()
        let kept = try await Self.attempts(harness, create.id)
        #expect(kept.count == 2 && kept[0].hasPrefix("1 1 1 1 unknown - ") && kept[1] == "2 2 1 2 succeeded 201")
        let first = try await harness.gateway.read(
            "SELECT sent_at = '\(sentAt.rfc3339)' FROM attempts ORDER BY ordinal LIMIT 1"
        )
        #expect(try first.read(0, 0, as: Bool.self), "sent_at is when it was marked as in flight")
        await helper.shutDown()
    }
}
