import Foundation
import JSONText
import Postgres
import ServiceLifecycle
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Encryption at rest, of what lanes store.
@Suite struct SealedLaneTests {
    static let marker = "geheimnis"

    func stage(_ upstream: FakeUpstream = FakeUpstream(), isRunning: Bool = true) async throws -> Stage {
        try await Stage(gateway: Gateway(masterKeys: TestKeys.first), upstream: upstream, isRunning: isRunning)
    }

    @Test func answersErrorsAndWhatIsSentInTheirPlaceAreSealed() async throws {
        let upstream = FakeUpstream { request, seen in
            if request.text.contains("reject") { return .status(422, #"{"why":"geheimnis"}"#) }
            if request.text.contains("retry"), seen == 0 { return .status(503, #"{"why":"geheimnis"}"#) }
            if request.text.contains("spoof") { return .status(201, #""sluice-sealed:1:1:geheimnis""#) }
            if request.method == "PATCH" { return .status(409, #"{"id":1,"title":"geheimnis"}"#) }
            return .status(201, #"{"id":1,"title":"geheimnis"}"#)
        }
        let stage = try await stage(upstream)
        let local = UUID()
        let create = stage.create(local: local, payload: #"{"title":"geheimnis"}"#)
        let reject = stage.create(payload: #"{"reject":"geheimnis"}"#)
        let spoof = stage.create(payload: #"{"spoof":1}"#)
        let retry = stage.create(payload: #"{"retry":1}"#)
        try await stage.phone.push([create, reject, spoof, retry])
        let created = try await stage.mutation(create.id, is: .succeeded)
        #expect(created.value(at: "/response/body/title")?.string == Self.marker)
        let rejected = try await stage.mutation(reject.id, is: .failed)
        #expect(rejected.value(at: "/response/body/why")?.string == Self.marker)
        #expect(rejected["last_error"]?.string == #"the upstream answered 422: {"why":"geheimnis"}"#)
        // an answer that looks sealed is one like any other
        let spoofed = try await stage.mutation(spoof.id, is: .failed)
        #expect(spoofed.value(at: "/response/body")?.string == "sluice-sealed:1:1:geheimnis")
        try await stage.mutation(retry.id, becomes: "tried") { $0["next_retry_at"]?.string != nil }

        #expect(try await stage.gateway.database.mentions(of: Self.marker) == [:])
        stage.gateway.clock.advance(seconds: 60)
        try await stage.mutation(retry.id, is: .succeeded)
        let update = stage.change("update", local: local, payload: #"{"title":"geheimnis mine"}"#)
        try await stage.phone.push([update])
        let conflict = try await stage.mutation(update.id, is: .conflict)
        #expect(conflict.value(at: "/error/current/document/title")?.string == Self.marker)
        #expect(try await stage.gateway.database.mentions(of: Self.marker) == [:])
        let json = try await stage.gateway.store.settling.resolve(
            update.id,
            ResolveRequest(body: Array(#"{"strategy":"server_wins"}"#.utf8), limits: IntakeLimits()),
            organization: stage.organization,
            user: stage.phone.user
        )
        #expect(try JSONTree(parsing: #require(json)).root.status == "discarded")
        #expect(try await stage.phone.pull().contains { $0["document"]?["title"]?.string == Self.marker })
        #expect(try await stage.gateway.database.mentions(of: Self.marker) == [:])
    }

    @Test func anAnswerThatLooksSealedIsNoSecretWithoutAKey() async throws {
        let upstream = FakeUpstream { _, _ in .status(201, #""sluice-sealed:1:1:AAAA""#) }
        let keys = "-\n" + TestKeys.second
        let stage = try await Stage(gateway: Gateway(masterKeys: keys), upstream: upstream)
        let entry = stage.create()
        try await stage.phone.push([entry])
        let mutation = try await stage.mutation(entry.id, is: .failed)
        #expect(mutation.value(at: "/response/body")?.string == "sluice-sealed:1:1:AAAA")
    }

    /// Two dispatchers on one database, of which one has lost its key: it leaves the lane alone, nothing is counted as an
    /// attempt, and the other runs it.
    @Test func aDispatcherWithoutTheKeyLeavesLanesAlone() async throws {
        let stage = try await stage(isRunning: false)
        let entry = stage.create(payload: #"{"title":"geheimnis"}"#)
        try await stage.phone.push([entry])
        let blind = try await Gateway(replicaOf: stage.gateway, masterKeys: TestKeys.second)
        let lane = LaneKey(organization: stage.organization.id, user: stage.phone.user)
        let turn = try await blind.store.lanes.step(.claim, of: lane, worker: UUID())
        guard case .released(let until) = turn else { return #expect(Bool(false), "\(turn)") }
        let later = blind.clock.now.adding(seconds: 30)
        #expect(until == later)
        let state = try await stage.lane()
        #expect(state.leaseOwner == nil && state.leaseToken == 0 && state.readyAt == later)
        #expect(try await blind.store.lanes.due(at: blind.clock.now, excluding: [], limit: 10).isEmpty)
        await #expect(throws: Problem.self) {
            try await blind.store.lanes.step(.goOn(token: 1, unblocking: []), of: lane, worker: UUID())
        }
        let pending = try await stage.mutation(entry.id)
        #expect(pending.status == "pending" && pending["attempt_count"]?.int64 == 0)

        stage.gateway.clock.advance(seconds: 31)
        guard case .run(let dispatch) = try await stage.gateway.store.lanes.step(.claim, of: lane, worker: UUID())
        else {
            return #expect(Bool(false), "the lane does not run")
        }
        #expect(dispatch.mutation.id == entry.id)
    }

    /// One user's head was damaged: what came of the request before it is written, it waits, and others go on.
    @Test func aHeadThatDoesNotOpenWaitsAndHarmsNobody() async throws {
        let stage = try await stage(isRunning: false)
        let (first, second) = (stage.create(payload: #"{"a":1}"#), stage.create(payload: #"{"b":1}"#))
        try await stage.phone.push([first, second])
        let connection = try await stage.gateway.database.connect()
        try await connection.execute(
            script: """
                UPDATE mutations SET payload = (SELECT payload FROM mutations WHERE id = '\(first.id)')
                WHERE id = '\(second.id)'
                """
        )
        await connection.closeAndWait()
        let (dispatcher, group) = Stage.dispatcher(stage.gateway, stage.upstream, pollInterval: 0.05)
        _ = dispatcher
        let service = Task { try? await group.run() }
        defer { service.cancel() }
        try await stage.mutation(first.id, is: .succeeded)
        let state = try await stage.lane()
        #expect(state.queuedCount == 1 && state.openCount == 1 && state.haltedBy == nil)
        let other = Phone(stage.gateway, stage.organization)
        let fine = other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])
        try await other.push([fine])
        try await stage.mutation(fine.id, of: other, is: .succeeded)
        #expect(stage.upstream.effects.count == 2)
        let row = try await stage.gateway.database.connect()
        let rows = try await row.run(
            Query(Statement("stuck", "SELECT status, attempt_count FROM mutations WHERE id = '\(second.id)'"))
        )
        #expect(try rows.string(0, 0) == "pending" && rows.int16(0, 1) == 0)
        row.close()
    }

    @Test func aMutationInFlightThatDoesNotOpenIsPutOff() async throws {
        let stage = try await stage(isRunning: false)
        let entry = stage.create(payload: #"{"a":1}"#)
        try await stage.phone.push([entry])
        let lane = LaneKey(organization: stage.organization.id, user: stage.phone.user)
        let lanes = stage.gateway.store.lanes
        guard case .run = try await lanes.step(.claim, of: lane, worker: UUID()) else {
            return #expect(Bool(false), "the lane does not run")
        }
        let connection = try await stage.gateway.database.connect()
        try await connection.execute(
            script: """
                UPDATE mutations SET payload = to_json(overlay(payload #>> '{}' PLACING 'AAAA' FROM 40))
                WHERE id = '\(entry.id)'
                """
        )
        await connection.closeAndWait()
        stage.gateway.clock.advance(seconds: 121)
        let other = Phone(stage.gateway, stage.organization)
        try await other.push([other.entry("create", "contact", local: UUID(), extra: ["endpoint": #""/contacts""#])])
        let others = LaneKey(organization: stage.organization.id, user: other.user)
        async let fine = lanes.step(.claim, of: others, worker: UUID())
        let turn = try await lanes.step(.claim, of: lane, worker: UUID())
        guard case .released(let until) = turn else { return #expect(Bool(false), "\(turn)") }
        let later = stage.gateway.clock.now.adding(seconds: 30)
        let state = try await stage.lane()
        #expect(until == later && state.readyAt == later && state.leaseToken == 1)
        #expect(state.inFlight == entry.id && state.queuedCount == 1)
        guard case .run = try await fine else { return #expect(Bool(false), "the other lane does not run") }
    }
}
