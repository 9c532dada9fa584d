import Foundation
import JSONText
import Logging
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncDispatch
@testable import SyncStore

/// The cause of 401, 407 and redirects may be the configuration or the mutation. Until this is certain, they hold
/// only the mutation's lane (product rule 11).
@Suite struct HoldTests {
    private static func create(_ phone: Phone, at endpoint: String = "/contacts") -> Entry {
        phone.entry("create", "contact", local: UUID(), extra: ["endpoint": #""\#(endpoint)""#])
    }

    /// Answers a redirect to an extra slash, and nothing else.
    private static func strict() -> FakeUpstream {
        FakeUpstream { request, _ in
            guard request.path.hasSuffix("/") else { return nil }
            return .response(UpstreamResponse(status: 301, location: "https://upstream/contacts?token=secret"))
        }
    }

    private static func isHeld(_ mutation: JSONValue) -> Bool {
        mutation.status == "pending" && mutation.nextRetryAt != nil && mutation.attempts == 0
    }

    @Test func `a wrong endpoint holds only its own lane`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.strict())
        let clock = harness.gateway.clock
        let (wrong, behind) = (Self.create(harness.phone, at: "/contacts/"), Self.create(harness.phone))
        try await harness.phone.push([wrong, behind])
        try await harness.mutation(wrong.id, becomes: "held", Self.isHeld)
        #expect(harness.dispatcher.current.openCircuits == 0)
        // while no other request succeeds, it may be a configuration error
        for count in 2...4 {
            clock.advance(seconds: 60)
            try await harness.until("the mutation was retried") { harness.upstream.requests.count == count }
            let held = try await harness.mutation(wrong.id, becomes: "held", Self.isHeld)
            #expect(held.lastError == "the upstream answered 301 (Location: https://upstream/contacts)")
        }
        #expect(try await harness.mutation(behind.id).status == "pending")
        // other users do not wait
        clock.advance(seconds: 1)
        let colleague = harness.newPhone()
        let entry = Self.create(colleague)
        try await colleague.push([entry])
        try await harness.mutation(entry.id, of: colleague, is: .succeeded)
        // the colleague's success shows that the cause is the mutation itself
        clock.advance(seconds: 60)
        let failed = try await harness.mutation(wrong.id, is: .failed)
        #expect(failed.code == "upstream_rejected" && failed.attempts == 1)
        #expect(failed["error"]?["detail"]?.string?.contains("(Location: https://upstream/contacts)") == true)
        #expect(failed["response"]?["status"]?.int64 == 301)
        try await harness.mutation(behind.id, is: .succeeded)
        #expect(try await harness.mapping(try #require(wrong.local)).status == .failed)
        #expect(harness.dispatcher.current.openCircuits == 0)
    }

    /// Another replica's requests count, and the state survives a restart.
    @Test func `another replica's successes reveal the cause`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.strict())
        let wrong = Self.create(harness.phone, at: "/contacts/")
        try await harness.phone.push([wrong])
        try await harness.mutation(wrong.id, becomes: "held", Self.isHeld)
        await harness.shutDown()
        harness.gateway.clock.advance(seconds: 1)
        let other = try await Gateway(replicaOf: harness.gateway)
        other.clock.advance(seconds: 1)
        let first = Helper(other, harness.upstream)
        let colleague = Phone(other, harness.organization)
        let entry = Self.create(colleague)
        try await colleague.push([entry])
        try await harness.mutation(entry.id, of: colleague, is: .succeeded)
        await first.shutDown()
        let second = Helper(other, harness.upstream)
        other.clock.advance(seconds: 60)
        try await harness.mutation(wrong.id, is: .failed)
        #expect(harness.upstream.requests.count == 3)
        await second.shutDown()
    }

    /// Only a person may send earlier than the upstream allows (rule 11).
    @Test(arguments: ["lane", "dependencies"])
    func `a change of the upstream's settings ends a back-off of a day`(_ order: String) async throws {
        let isDown = Mutex(true)
        let upstream = FakeUpstream { _, _ in
            guard isDown.withLock({ $0 }) else { return nil }
            let retryAt = Timestamp(microseconds: 4_000_000_000_000_000)
            return .response(UpstreamResponse(status: 503, retryAt: retryAt))
        }
        let harness = try await DispatcherHarness(settings: #"{"order":"\#(order)"}"#, upstream: upstream)
        let entry = Self.create(harness.phone)
        try await harness.phone.push([entry])
        try await harness.mutation(entry.id, becomes: "waiting") { $0.nextRetryAt != nil }
        isDown.withLock { $0 = false }
        let administration = harness.gateway.store.administration
        var update = UpstreamUpdate()
        update.isPaused = .set(true)
        _ = try await administration.putUpstream(of: harness.organization.id, update)
        harness.gateway.clock.advance(seconds: 60)
        try await Task.sleep(for: .milliseconds(300))
        #expect(harness.upstream.requests.count == 1)
        update.isPaused = .set(false)
        _ = try await administration.putUpstream(of: harness.organization.id, update)
        await BackoffEnder(administration, logger: Logger(label: "test")).makePasses()
        harness.gateway.clock.advance(seconds: 7)
        try await harness.mutation(entry.id, is: .succeeded)
    }

    @Test(arguments: ["lane", "dependencies"])
    func `an operator's retry ends the back-off of one mutation, and keeps its key`(_ order: String) async throws {
        let isDown = Mutex(true)
        let upstream = FakeUpstream { _, _ in
            guard isDown.withLock({ $0 }) else { return nil }
            let retryAt = Timestamp(microseconds: 4_000_000_000_000_000)
            return .response(UpstreamResponse(status: 503, retryAt: retryAt))
        }
        let harness = try await DispatcherHarness(settings: #"{"order":"\#(order)"}"#, upstream: upstream)
        let colleague = harness.newPhone()
        let (entry, other) = (Self.create(harness.phone), Self.create(colleague))
        try await harness.phone.push([entry])
        try await colleague.push([other])
        try await harness.mutation(entry.id, becomes: "waiting") { $0.nextRetryAt != nil }
        try await harness.mutation(other.id, of: colleague, becomes: "waiting") { $0.nextRetryAt != nil }
        isDown.withLock { $0 = false }
        func retry(_ body: String = "{}", of user: UUID, isOperator: Bool) async throws -> MutationDetail? {
            let request = try RetryRequest(body: Array(body.utf8), limits: IntakeLimits())
            return try await harness.gateway.store.settling.retry(
                entry.id,
                request,
                organization: harness.organization,
                user: user,
                endsBackOff: isOperator
            )
        }
        // a user may not send earlier than the upstream allows, and an edit could take effect in addition
        for (body, isOperator) in [("{}", false), (#"{"payload":{}}"#, true), (#"{"payload":{},"force":true}"#, true)] {
            let problem = await #expect(throws: Problem.self) {
                try await retry(body, of: harness.phone.user, isOperator: isOperator)
            }
            #expect(problem?.code == .statusTransitionMustBeValid)
        }
        #expect(try await retry(of: colleague.user, isOperator: true) == nil, "it is another user's")
        #expect(upstream.requests.count == 2)
        // at the time of a probe, if the failures opened the circuit
        harness.gateway.clock.advance(seconds: 60)
        let retried = try await retry(of: harness.phone.user, isOperator: true)
        #expect(retried?.record.status == .pending && retried?.record.nextRetryAt == nil)
        #expect(retried?.record.revision == 1 && retried?.record.attemptCount == 1)
        let done = try await harness.mutation(entry.id, is: .succeeded)
        #expect(done.attempts == 2)
        let keys = upstream.requests.filter { $0.user == harness.phone.user }.map(\.idempotencyKey)
        #expect(keys.count == 2 && Set(keys).count == 1)
        #expect(try await harness.mutation(other.id, of: colleague).nextRetryAt != nil)
    }

    /// Requests in flight at the first answer may have succeeded before a configuration error began.
    @Test func `successes of earlier requests are no evidence`() async throws {
        let harness = try await DispatcherHarness(isRunning: false)
        let moment = harness.gateway.clock.now
        let (colleague, worker) = (harness.newPhone(), UUID())
        let (entry, wrong) = (Self.create(colleague), Self.create(harness.phone))
        try await colleague.push([entry])
        try await harness.phone.push([wrong])
        let key = LaneKey(organization: harness.organization.id, user: colleague.user)
        let lanes = harness.gateway.store.lanes
        let dispatch = try #require(try await lanes.step(.claim, of: key, worker: worker).dispatch)
        func hasSucceeded(since: Timestamp) async throws -> Bool {
            try await lanes.hasSucceeded(in: harness.organization.id, since: since, timeout: .seconds(30))
        }
        harness.gateway.clock.advance(seconds: 29)
        let outcome = harness.outcome(.status(201, #"{"id":1}"#), to: dispatch)
        _ = try await lanes.step(.settle(dispatch, outcome), of: key, worker: worker)
        #expect(try await !hasSucceeded(since: moment))
        #expect(try await hasSucceeded(since: moment.adding(seconds: -2)))
        #expect(try await !hasSucceeded(since: moment.adding(seconds: 29)))
        // the built-in store, and deletes of missing entities, are no evidence either
        try await harness.makeBuiltIn("note")
        let delete = colleague.entry("delete", "contact", server: "7", extra: ["endpoint": #""/contacts/7""#])
        try await colleague.push([colleague.create("note"), delete])
        let next = try #require(try await lanes.step(.claim, of: key, worker: worker).dispatch)
        let gone = harness.outcome(.status(404), to: next)
        #expect(gone.status == .succeeded)
        _ = try await lanes.step(.settle(next, gone), of: key, worker: worker)
        #expect(try await !hasSucceeded(since: moment))
        // another organization has another upstream
        #expect(try await !lanes.hasSucceeded(in: UUID(), since: moment.adding(seconds: -2), timeout: .seconds(30)))
    }

    @Test func `a configuration error costs no attempt, and the hold ends with it`() async throws {
        let answer = Shared<Int?>(401)
        let harness = try await DispatcherHarness(upstream: FakeUpstream { _, _ in answer.value.map { .status($0) } })
        let create = harness.create(extra: ["max_attempts": "1"])
        try await harness.phone.push([create])
        for (count, status) in [401, 407, 302].enumerated() {
            answer.value = status
            try await harness.until("refused \(count + 1) times") {
                if harness.upstream.requests.count <= count { harness.gateway.clock.advance(seconds: 37) }
                return harness.upstream.requests.count > count
            }
        }
        let held = try await harness.mutation(create.id, becomes: "held", Self.isHeld)
        #expect(held.lastError != nil && harness.dispatcher.current.openCircuits == 0)
        #expect(try await harness.mapping(try #require(create.local)).status == .pending)
        answer.value = nil
        try await harness.until("the mutation was sent") {
            harness.gateway.clock.advance(seconds: 37)
            return try await harness.mutation(create.id).status == "succeeded"
        }
        #expect(try await harness.mutation(create.id).attempts == 1)
        #expect(try await harness.count("hold_count <> 0 OR held_since IS NOT NULL") == 0)
    }

    /// With an expired credential, all requests receive the same answer, and few are sent.
    @Test func `several lanes with the same answer open the circuit`() async throws {
        let isRight = Shared(false)
        let upstream = FakeUpstream { _, _ in isRight.value ? nil : .status(401) }
        let harness = try await DispatcherHarness(upstream: upstream, maximumConcurrency: 1)
        let phones = (0..<20).map { _ in harness.newPhone() }
        let entries = phones.map { Self.create($0) }
        for (phone, entry) in zip(phones, entries) { try await phone.push([entry]) }
        try await harness.until("all lanes are postponed") {
            let due = try await harness.gateway.store.lanes.due(
                at: harness.gateway.clock.now,
                excluding: [],
                limit: 100
            )
            return due.isEmpty && harness.dispatcher.current.running == 0
        }
        #expect(upstream.requests.count == 3 && Set(upstream.requests.map(\.user)).count == 3)
        #expect(harness.dispatcher.current.openCircuits == 1)
        // neither the sent mutations nor the others lose an attempt
        #expect(try await harness.count("attempt_count = 0 AND status = 'pending'") == 20)
        isRight.value = true
        try await harness.until("everything was sent") {
            harness.gateway.clock.advance(seconds: 2)
            return try await harness.count("status = 'succeeded'") == 20
        }
        #expect(upstream.requests.count == 23 && harness.dispatcher.current.openCircuits == 0)
    }

    @Test func `a person's retry resets the hold`() async throws {
        let harness = try await DispatcherHarness(upstream: Self.strict())
        let wrong = Self.create(harness.phone, at: "/contacts/")
        try await harness.phone.push([wrong])
        try await harness.mutation(wrong.id, becomes: "held", Self.isHeld)
        harness.gateway.clock.advance(seconds: 60)
        let colleague = harness.newPhone()
        try await colleague.push([Self.create(colleague)])
        try await harness.until("the mutation failed") {
            harness.gateway.clock.advance(seconds: 60)
            return try await harness.mutation(wrong.id).status == "failed"
        }
        _ = try await harness.gateway.store.settling.retry(
            wrong.id,
            RetryRequest(),
            organization: harness.organization,
            user: harness.phone.user
        )
        // earlier successes of others no longer count
        let held = try await harness.mutation(wrong.id, becomes: "held", Self.isHeld)
        #expect(held["revision"]?.int64 == 2)
        #expect(try await harness.count("hold_count = 1") == 1)
    }
}
