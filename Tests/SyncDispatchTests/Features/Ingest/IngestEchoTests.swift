import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import IngestFeature
@testable import SyncStore

/// Edits at an API that also receives the gateway's own requests.
@Suite struct IngestEchoTests {
    /// A harness whose organization has a service token, so that requests are recorded.
    private func harness(_ upstream: FakeUpstream = FakeUpstream(), gateway: Gateway? = nil) async throws
        -> DispatcherHarness
    {
        let harness = try await DispatcherHarness(gateway: gateway, upstream: upstream)
        _ = try await harness.gateway.store.administration.makeServiceToken(for: "crm", of: harness.organization.id)
        return harness
    }

    private func source(_ harness: DispatcherHarness) -> EventSource {
        EventSource(harness.gateway, harness.organization)
    }

    private func event(
        _ id: String,
        _ operation: String = "upsert",
        _ entity: String = "1",
        version: Int64,
        _ document: String,
        key: UUID? = nil
    ) -> String {
        let extra = key.map { ["causing_key": #""\#($0.lowercased)""#] } ?? [:]
        return EventSource.event(id, operation, of: "contact", entity, version: version, document, extra: extra)
    }

    /// Entity 1, created by a phone.
    private func made(_ harness: DispatcherHarness) async throws -> UUID {
        let contact = UUID()
        let create = harness.create(local: contact, payload: #"{"name":"Kari"}"#)
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        return contact
    }

    @Test func `a sent request returns as an echo, recognized by its key or its result`() async throws {
        let harness = try await harness()
        let contact = try await made(harness)
        let update = harness.change("update", local: contact, payload: #"{"phone":"1"}"#)
        try await harness.phone.push([update])
        try await harness.mutation(update.id, is: .succeeded)
        let keys = harness.upstream.requests.map(\.idempotencyKey)
        let before = try await harness.phone.pull()
        let source = source(harness)
        let results = try await source.results([
            event("a", version: 1, #"{"id":1}"#, key: keys[0]),
            event("b", version: 2, #"{"phone":"1","id":1}"#),
            event("c", version: 3, #"{"phone":"1","id":1,"city":"Bergen"}"#),
        ])
        #expect(results == ["echo", "echo", "applied"])
        let after = try await harness.phone.pull()
        #expect(before.map(\.version) == [2] && after.map(\.version) == [3])
        #expect(after[0]["document"]?["city"]?.string == "Bergen")
        // the echo was used up, so a later revert is applied
        #expect(try await source.results([event("d", version: 4, #"{"phone":"1","id":1}"#)]) == ["applied"])
    }

    @Test func `an edit based on the version before another user's edit is a conflict`() async throws {
        let harness = try await harness()
        let contact = try await made(harness)
        #expect(
            try await source(harness).results([event("a", "patch", version: 9, #"{"city":"Bergen"}"#)]) == ["applied"]
        )
        let sent = harness.upstream.requests.count
        let stale = harness.change("update", local: contact, payload: #"{"city":"Oslo"}"#, extra: ["base_version": "1"])
        try await harness.phone.push([stale])
        let mutation = try await harness.mutation(stale.id, is: .conflict)
        #expect(mutation.value(at: "/error/current/document/city")?.string == "Bergen")
        #expect(harness.upstream.requests.count == sent)
    }

    @Test func `an event waits for the request in flight, and the next edit for the event`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            guard request.method == "PATCH", request.text.contains("first") else { return nil }
            await gate.pass()
            return nil
        }
        let harness = try await harness(upstream)
        let contact = try await made(harness)
        let first = harness.change("update", local: contact, payload: #"{"by":"first"}"#)
        // based on the first edit's result
        let second = harness.change(
            "update",
            local: contact,
            payload: #"{"by":"second"}"#,
            extra: ["base_version": "2"]
        )
        try await harness.phone.push([first, second])
        await gate.arrivals(1)
        let key = try #require(upstream.requests.last?.idempotencyKey)
        let results = try await source(harness).results([
            // the webhook about the request arrives before the request's answer
            event("a", version: 2, #"{"id":1,"by":"first"}"#, key: key),
            event("b", "patch", version: 3, #"{"city":"Bergen"}"#),
        ])
        #expect(results == ["parked", "parked"])
        #expect(try await harness.phone.pull().map(\.version) == [1])
        gate.open()
        // only the outcome releases the event, because the clock does not advance
        try await waitUntil("the event is applied") { try await harness.phone.pull()[0].version == 3 }
        harness.gateway.clock.advance(seconds: 1)
        let mutation = try await harness.mutation(second.id, is: .conflict)
        #expect(mutation.value(at: "/error/current/document/city")?.string == "Bergen")
        let again = try await source(harness).send([event("a", version: 2, "{}"), event("b", version: 3, "{}")])
        #expect(again.map { $0["original"]?.string } == ["echo", "applied"])
        #expect(try await harness.gateway.count("parked_events", of: harness.organization.id) == 0)
    }

    @Test func `an event that arrives before the answer to its create makes no second entity`() async throws {
        let gate = Gate()
        let upstream = FakeUpstream { request, _ in
            await gate.pass()
            return nil
        }
        let harness = try await harness(upstream)
        let create = harness.create(payload: #"{"name":"Kari"}"#)
        try await harness.phone.push([create])
        await gate.arrivals(1)
        let key = try #require(upstream.requests.last?.idempotencyKey)
        let source = source(harness)
        // until the answer arrives, the event about another entity could also be about the create in flight
        let owner = ["owner": #""\#(harness.phone.user.lowercased)""#]
        let other = EventSource.event("b", of: "contact", "2", version: 1, #"{"name":"Ola"}"#, extra: owner)
        #expect(
            try await source.results([event("a", version: 1, #"{"id":1}"#, key: key), other]) == ["parked", "parked"]
        )
        gate.open()
        try await harness.mutation(create.id, is: .succeeded)
        try await waitUntil("both events are evaluated") {
            try await harness.gateway.count("parked_events", of: harness.organization.id) == 0
        }
        let changes = try await harness.phone.pull()
        #expect(changes.map { $0["id"]?.text }.sorted { $0 ?? "" < $1 ?? "" } == ["1", "2"])
        #expect(changes.allSatisfy { $0.version == 1 })
        let again = try await source.send([event("a", version: 1, "{}"), other])
        #expect(again.map { $0["original"]?.string } == ["echo", "applied"])
    }

    @Test func `an event waits for the retries of an uncertain request, for two minutes at most`()
        async throws
    {
        let upstream = FakeUpstream { request, seen in request.method == "PATCH" ? .status(500) : nil }
        let harness = try await harness(upstream)
        let contact = try await made(harness)
        let update = harness.change("update", local: contact, payload: #"{"phone":"1"}"#)
        try await harness.phone.push([update])
        try await harness.mutation(update.id) { $0["next_retry_at"]?.string != nil }
        #expect(try await source(harness).results([event("a", "patch", version: 5, #"{"city":"Oslo"}"#)]) == ["parked"])
        await harness.gateway.store.ingest.release()
        #expect(try await harness.phone.pull().map(\.version) == [1])
        harness.gateway.clock.advance(seconds: SentRecord.flightSeconds + 1)
        try await waitUntil("the event is applied") { try await harness.phone.pull()[0].version == 2 }
    }

    /// A request about entity 1 is in flight until the gate opens.
    private func flying(_ gate: Gate) async throws -> DispatcherHarness {
        let harness = try await harness(
            FakeUpstream { request, _ in
                if request.method == "PATCH" { await gate.pass() }
                return nil
            }
        )
        let contact = try await made(harness)
        try await harness.phone.push([harness.change("update", local: contact, payload: #"{"by":"phone"}"#)])
        await gate.arrivals(1)
        return harness
    }

    private func settled(_ harness: DispatcherHarness) async throws {
        try await waitUntil("nothing waits") {
            try await harness.gateway.count("parked_events", of: harness.organization.id) == 0
        }
    }

    @Test func `patches with the same time are applied in the order of arrival`() async throws {
        let gate = Gate()
        let harness = try await flying(gate)
        let other = try await Gateway(replicaOf: harness.gateway)
        // only the order of arrival determines which patch is newer
        let patches = (0..<300).map { number in
            let document = #"{"last":\#(number),"n\#(number)":\#(number)}"#
            return EventSource.event("p\(299 - number)", "patch", of: "contact", "1", document)
        }
        let source = source(harness)
        for start in stride(from: 0, to: 300, by: 50) {
            let through = start % 100 == 0 ? harness.gateway : other
            let results = try await source.results(Array(patches[start..<(start + 50)]), through: through)
            #expect(results == Array(repeating: "parked", count: 50))
        }
        gate.open()
        try await settled(harness)
        let changed = try #require(try await harness.phone.pull().first)
        #expect(changed["document"]?["last"]?.int64 == 299)
        let document = changed["document"]?.text ?? ""
        #expect((0..<300).allSatisfy { document.contains(#""n\#($0)":\#($0)"#) })
        #expect(changed.version == 302)
    }

    @Test func `an event that finds no room is refused and may be sent again, and nothing is lost`() async throws {
        let gate = Gate()
        let harness = try await flying(gate)
        let source = source(harness)
        for start in stride(from: 0, to: IngestPlanner.parkedLimit, by: 500) {
            let batch = (start..<(start + 500)).map { number in
                event("p\(number)", "patch", version: Int64(number + 10), #"{"n":\#(number)}"#)
            }
            #expect(try await source.results(batch).allSatisfy { $0 == "parked" })
        }
        let more = event("more", "patch", version: 9_000, #"{"more":true}"#)
        let refused = try #require(try await source.send([more]).first)
        #expect(refused["result"]?.string == "refused")
        #expect(refused.value(at: "/error/code")?.string == "overloaded")
        gate.open()
        try await settled(harness)
        #expect(try await source.results([more]) == ["applied"])
        let document = try await harness.phone.pull().first?["document"]
        #expect(document?["n"]?.int64 == Int64(IngestPlanner.parkedLimit - 1) && document?["more"]?.bool == true)
    }

    @Test func `an event refused after waiting may be fixed and sent again under its id`() async throws {
        let gate = Gate()
        let harness = try await flying(gate)
        let source = source(harness)
        let results = try await source.results([
            event("gone", "delete", version: 10, "{}"), event("late", "patch", version: 11, #"{"city":"Oslo"}"#),
        ])
        #expect(results == ["parked", "parked"])
        gate.open()
        try await settled(harness)
        let corrected = event("late", version: 11, #"{"city":"Oslo"}"#)
        let again = [corrected, event("gone", "delete", version: 10, "{}")]
        #expect(try await source.results(again) == ["applied", "duplicate"])
        #expect(try await harness.phone.pull().first?["document"]?.text == #"{"city":"Oslo"}"#)
    }

    @Test func `events do not wait for a refused request`() async throws {
        let upstream = FakeUpstream { request, _ in request.method == "PATCH" ? .status(422, "{}") : nil }
        let harness = try await harness(upstream)
        let contact = try await made(harness)
        let update = harness.change("update", local: contact, payload: #"{"phone":"1"}"#)
        try await harness.phone.push([update])
        try await harness.mutation(update.id, is: .failed)
        #expect(try await source(harness).results([event("a", "patch", version: 5, #"{"phone":"1"}"#)]) == ["applied"])
        #expect(try await harness.gateway.count("sent_requests", of: harness.organization.id) == 1)
    }

    @Test func `records nothing for organizations without service tokens`() async throws {
        let harness = try await DispatcherHarness()
        _ = try await made(harness)
        #expect(try await harness.gateway.count("sent_requests", of: harness.organization.id) == 0)
    }
}
