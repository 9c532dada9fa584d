import Foundation
import JSONText
import Postgres
import ServiceLifecycle
import StoreSupport
import SyncHTTP
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import EncryptionFeature
@testable import SyncDispatch
@testable import SyncStore

/// Encryption at rest of the content that lanes store.
@Suite struct SealedLaneTests {
    static let marker = "geheimnis"

    func harness(_ upstream: FakeUpstream = FakeUpstream(), isRunning: Bool = true) async throws -> DispatcherHarness {
        try await DispatcherHarness(
            gateway: Gateway(masterKeys: TestKeys.first),
            upstream: upstream,
            isRunning: isRunning
        )
    }

    @Test func `seals answers, errors and overriding payloads`() async throws {
        let upstream = FakeUpstream { request, seen in
            if request.text.contains("reject") { return .status(422, #"{"why":"geheimnis"}"#) }
            if request.text.contains("retry"), seen == 0 { return .status(503, #"{"why":"geheimnis"}"#) }
            if request.text.contains("spoof") { return .status(201, #""sluice-sealed:1:1:geheimnis""#) }
            if request.method == "PATCH" { return .status(409, #"{"id":1,"title":"geheimnis"}"#) }
            return .status(201, #"{"id":1,"title":"geheimnis"}"#)
        }
        let harness = try await harness(upstream)
        let local = UUID()
        let create = harness.create(local: local, payload: #"{"title":"geheimnis"}"#)
        let reject = harness.create(payload: #"{"reject":"geheimnis"}"#)
        let spoof = harness.create(payload: #"{"spoof":1}"#)
        let retry = harness.create(payload: #"{"retry":1}"#)
        try await harness.phone.push([create, reject, spoof, retry])
        let created = try await harness.mutation(create.id, is: .succeeded)
        #expect(created.value(at: "/response/body/title")?.string == Self.marker)
        let rejected = try await harness.mutation(reject.id, is: .failed)
        #expect(rejected.value(at: "/response/body/why")?.string == Self.marker)
        #expect(rejected["last_error"]?.string == #"the upstream answered 422: {"why":"geheimnis"}"#)
        // an answer that looks sealed is a normal one
        let spoofed = try await harness.mutation(spoof.id, is: .failed)
        #expect(spoofed.value(at: "/response/body")?.string == "sluice-sealed:1:1:geheimnis")
        try await harness.mutation(retry.id, becomes: "tried") { $0["next_retry_at"]?.string != nil }

        #expect(try await harness.gateway.database.mentions(of: Self.marker) == [:])
        harness.gateway.clock.advance(seconds: 60)
        try await harness.mutation(retry.id, is: .succeeded)
        let update = harness.change("update", local: local, payload: #"{"title":"geheimnis mine"}"#)
        try await harness.phone.push([update])
        let conflict = try await harness.mutation(update.id, is: .conflict)
        #expect(conflict.value(at: "/error/current/document/title")?.string == Self.marker)
        #expect(try await harness.gateway.database.mentions(of: Self.marker) == [:])
        let resolved = try await harness.gateway.store.settling.resolve(
            update.id,
            ResolveRequest(body: Array(#"{"strategy":"server_wins"}"#.utf8), limits: IntakeLimits()),
            organization: harness.organization,
            user: harness.phone.user
        )
        #expect(resolved?.record.status == .discarded)
        #expect(try await harness.phone.pull().contains { $0["document"]?["title"]?.string == Self.marker })
        #expect(try await harness.gateway.database.mentions(of: Self.marker) == [:])
    }

    @Test func `returns an answer that looks sealed without a key`() async throws {
        let upstream = FakeUpstream { _, _ in .status(201, #""sluice-sealed:1:1:AAAA""#) }
        let keys = "-\n" + TestKeys.second
        let harness = try await DispatcherHarness(gateway: Gateway(masterKeys: keys), upstream: upstream)
        let entry = harness.create()
        try await harness.phone.push([entry])
        let mutation = try await harness.mutation(entry.id, is: .failed)
        #expect(mutation.value(at: "/response/body")?.string == "sluice-sealed:1:1:AAAA")
    }

    /// One of two dispatchers on a database has lost its key. It does not claim the lane, and no attempt is counted.
    /// The other dispatcher runs the lane.
    @Test func `a dispatcher without the key leaves lanes alone`() async throws {
        let harness = try await harness(isRunning: false)
        let entry = harness.create(payload: #"{"title":"geheimnis"}"#)
        try await harness.phone.push([entry])
        let blind = try await Gateway(replicaOf: harness.gateway, masterKeys: TestKeys.second)
        let lane = LaneKey(organization: harness.organization.id, user: harness.phone.user)
        let turn = try await blind.store.lanes.step(.claim, of: lane, worker: UUID())
        guard case .released(let until) = turn else { return #expect(Bool(false), "\(turn)") }
        let later = blind.clock.now.adding(seconds: 30)
        #expect(until == later)
        let state = try await harness.lane()
        #expect(state.lease.owner == nil && state.lease.token == 0 && state.readyAt == later)
        #expect(try await blind.store.lanes.due(at: blind.clock.now, excluding: [], limit: 10).isEmpty)
        await #expect(throws: Problem.self) {
            try await blind.store.lanes.step(.proceed(token: 1, unblocking: []), of: lane, worker: UUID())
        }
        let pending = try await harness.mutation(entry.id)
        #expect(pending.status == "pending" && pending["attempt_count"]?.int64 == 0)

        harness.gateway.clock.advance(seconds: 31)
        guard case .run(let dispatch) = try await harness.gateway.store.lanes.step(.claim, of: lane, worker: UUID())
        else {
            return #expect(Bool(false), "the lane does not run")
        }
        #expect(dispatch.mutation.id == entry.id)
    }

    /// The payload of a lane's head was damaged. The outcome of the request before it is still written. The head fails
    /// and waits for a person, and later mutations continue. Retried with another payload, the head runs.
    @Test func `a damaged head fails and affects no other mutation`() async throws {
        let harness = try await harness(isRunning: false)
        let entries = [#"{"a":1}"#, #"{"b":1}"#, #"{"c":1}"#].map { harness.create(payload: $0) }
        try await harness.phone.push(entries)
        let connection = try await harness.gateway.database.connect()
        try await connection.execute(
            script: """
                UPDATE mutations AS m SET payload = o.payload FROM mutations o
                WHERE o.organization_id = m.organization_id AND o.id = '\(entries[0].id)' AND m.id = '\(entries[1].id)'
                """
        )
        await connection.closeAndWait()
        let (dispatcher, group) = DispatcherHarness.dispatcher(harness.gateway, harness.upstream, pollInterval: 0.05)
        _ = dispatcher
        let service = Task { try? await group.run() }
        defer { service.cancel() }
        try await harness.mutation(entries[0].id, is: .succeeded)
        try await harness.mutation(entries[2].id, is: .succeeded)
        let failed = try await harness.mutation(entries[1].id, is: .failed)
        #expect(failed["attempt_count"]?.int64 == 0 && failed["payload"]?.isNull == true)
        #expect(failed["unreadable"]?.text == #"["payload"]"#)
        #expect(failed["last_error"]?.string?.contains("cannot be decrypted (payload)") == true)
        #expect(failed.code == "validation_failed")
        #expect(harness.upstream.effects.count == 2)

        func retry(_ body: String) async throws {
            let request = try RetryRequest(body: Array(body.utf8), limits: IntakeLimits())
            _ = try await harness.gateway.store.settling.retry(
                entries[1].id,
                request,
                organization: harness.organization,
                user: harness.phone.user
            )
        }
        let refusal = await #expect(throws: Problem.self) { try await retry("{}") }
        #expect(refusal?.code == .validationFailed && refusal?.errors.first?.pointer == "/payload")
        try await retry(#"{"payload":{"b":2}}"#)
        let corrected = try await harness.mutation(entries[1].id, is: .succeeded)
        #expect(corrected["payload"]?.text == #"{"b":2}"# && corrected["unreadable"] == nil)
    }

    /// A lane's worker was lost, and the mutation in flight was damaged after that. The mutation fails, and the lane is
    /// claimed like any other.
    @Test func `a damaged mutation in flight fails`() async throws {
        let harness = try await harness(isRunning: false)
        let entry = harness.create(payload: #"{"a":1}"#)
        try await harness.phone.push([entry])
        let lane = LaneKey(organization: harness.organization.id, user: harness.phone.user)
        let lanes = harness.gateway.store.lanes
        guard case .run = try await lanes.step(.claim, of: lane, worker: UUID()) else {
            return #expect(Bool(false), "the lane does not run")
        }
        try await harness.change(payloadOf: entry.id) { "\($0.prefix(39))AAAA\($0.dropFirst(43))" }
        harness.gateway.clock.advance(seconds: 121)
        let other = Phone(harness.gateway, harness.organization)
        try await other.push([other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])])
        let others = LaneKey(organization: harness.organization.id, user: other.user)
        async let fine = lanes.step(.claim, of: others, worker: UUID())
        let turn = try await lanes.step(.claim, of: lane, worker: UUID())
        guard case .released(nil) = turn else { return #expect(Bool(false), "\(turn)") }
        let state = try await harness.lane()
        #expect(state.inFlight == nil && state.queue.count == 0 && state.lease.owner == nil)
        try await harness.mutation(entry.id, is: .failed)
        guard case .run = try await fine else { return #expect(Bool(false), "the other lane does not run") }
    }

    /// A head under an existing data key with a missing master key waits, because this is a configuration error. A head
    /// under a missing data key waits while the key may have just been created.
    @Test func `a head that another configuration can open waits`() async throws {
        let harness = try await harness(isRunning: false)
        let (known, nowhere) = (harness.create(payload: #"{"a":1}"#), harness.create(payload: #"{"b":1}"#))
        try await harness.phone.push([known])
        let other = Phone(harness.gateway, harness.organization)
        try await other.push([nowhere])
        _ = try await harness.gateway.store.keyRotation.renew(harness.organization.id)
        try await harness.execute("UPDATE organization_keys SET master_key = 'lost:00000000' WHERE number = 1")
        try await harness.change(payloadOf: nowhere.id) { $0.replacing(":1:1:", with: ":1:99:") }
        harness.gateway.clock.advance(seconds: 6)
        let worker = UUID()
        let lanes = [harness.phone.user, other.user].map { LaneKey(organization: harness.organization.id, user: $0) }
        for lane in lanes {
            let turn = try await harness.gateway.store.lanes.step(.claim, of: lane, worker: worker)
            guard case .released(let until) = turn else { return #expect(Bool(false), "\(turn)") }
            #expect(until == harness.gateway.clock.now.adding(seconds: 30))
        }
        #expect(try await harness.mutation(known.id)["unreadable"]?.text == #"["payload"]"#)
        harness.gateway.clock.advance(seconds: 61)
        for lane in lanes {
            var turn = try await harness.gateway.store.lanes.step(.claim, of: lane, worker: worker)
            if case .proceed(let token, let unblocking) = turn {
                turn = try await harness.gateway.store.lanes.step(
                    .proceed(token: token, unblocking: unblocking),
                    of: lane,
                    worker: worker
                )
            }
        }
        #expect(try await harness.mutation(known.id).status == "pending")
        #expect(try await harness.mutation(nowhere.id, of: other).status == "failed")
    }

    // MARK: - Values that look sealed

    /// The values come from clients and upstreams, on every path. The gateway has no key, only opens, or seals.
    @Test(arguments: [nil, "-\n" + TestKeys.second, TestKeys.first])
    func `a value that looks sealed is a normal value`(_ keys: String?) async throws {
        let spoof = #""sluice-sealed:1:1:AAAA""#
        let upstream = FakeUpstream { request, _ in
            switch request.method {
            case "POST": request.path.contains("refused") ? .status(422, spoof) : .status(201, #"{"id":1}"#)
            case "PUT": .status(200, spoof)
            case "PATCH": .status(409, spoof)
            default: nil
            }
        }
        let harness = try await DispatcherHarness(
            settings: #"{"on_conflict":"continue"}"#,
            gateway: Gateway(masterKeys: keys),
            upstream: upstream
        )
        let local = UUID()
        let create = harness.create(local: local, payload: "   " + spoof)
        let refused = harness.create("refused", payload: #""\u0073luice-sealed:1:1:AAAA""#)
        let replace = harness.change(
            "replace",
            local: local,
            payload: spoof,
            extra: ["headers": #"{"accept-language":"sluice-sealed:1:1:AAAA"}"#]
        )
        let update = harness.change("update", local: local, payload: spoof)
        let push = [create, refused, replace, update]
        try await harness.phone.push(push)
        let created = try await harness.mutation(create.id, is: .succeeded)
        #expect(created["payload"]?.text == spoof)
        let failed = try await harness.mutation(refused.id, is: .failed)
        #expect(failed["payload"]?.text == #""\u0073luice-sealed:1:1:AAAA""#)
        #expect(failed.value(at: "/response/body")?.text == spoof)
        let replaced = try await harness.mutation(replace.id, is: .succeeded)
        #expect(replaced.value(at: "/response/body")?.text == spoof)
        let conflict = try await harness.mutation(update.id, is: .conflict)
        #expect(conflict["payload"]?.text == spoof)
        #expect(Set(harness.upstream.requests.map(\.text)) == [spoof, #""\u0073luice-sealed:1:1:AAAA""#])

        // a person resolves, retries with another payload and discards; lists, a repeat of the push and a pull are read
        let settling = harness.gateway.store.settling
        let (organization, user) = (harness.organization, harness.phone.user)
        let limits = IntakeLimits()
        _ = try await settling.resolve(
            update.id,
            ResolveRequest(body: Array(#"{"strategy":"client_wins","payload":\#(spoof)}"#.utf8), limits: limits),
            organization: organization,
            user: user
        )
        _ = try await settling.retry(
            refused.id,
            RetryRequest(body: Array(#"{"payload":\#(spoof)}"#.utf8), limits: limits),
            organization: organization,
            user: user
        )
        try await harness.mutation(refused.id, becomes: "refused again") {
            $0.status == "failed" && $0["payload"]?.text == spoof
        }
        let filter = MutationFilter(statuses: [], deviceID: nil, entityType: nil, limit: 100, cursor: nil)
        for page in [
            try await harness.gateway.store.mutations.list(filter, organization: organization, user: user),
            try await harness.gateway.store.mutations.list(filter, organization: organization, of: nil),
        ] {
            let mutations = try JSONTree(parsing: page.json()).root.list("mutations")
            #expect(mutations.count == 4 && mutations.allSatisfy { $0["unreadable"] == nil })
        }
        let replay = try await harness.phone.push(push)
        #expect(replay.results.allSatisfy { $0.isReplayed == true })
        for change in try await harness.phone.pull() { #expect(change["unreadable"] == nil) }
        _ = try await settling.discard(
            refused.id,
            DiscardRequest(dependants: .discard),
            organization: organization,
            user: user
        )
        let delete = harness.change("delete", server: "7", payload: spoof)
        let refusedDelete = try await harness.phone.push([delete]).results.first
        #expect(refusedDelete?.status == "rejected" && refusedDelete?.rules == ["payload_must_be_valid_json"])
    }
}

extension DispatcherHarness {
    /// Replaces a mutation's sealed payload.
    fileprivate func change(payloadOf id: UUID, _ change: (String) -> String) async throws {
        let sealed = try await read("SELECT payload #>> '{}' FROM mutations WHERE id = '\(id)'").read(
            0,
            0,
            as: String.self
        )
        try await execute("UPDATE mutations SET payload = '\"\(change(sealed))\"' WHERE id = '\(id)'")
    }
}
