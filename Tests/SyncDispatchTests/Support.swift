import Foundation
import JSONText
import Postgres
import ServiceLifecycle
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// Holds each arriving task until the gate is opened or the task is cancelled.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var arrived = 0
        var waiting: [UUID: CheckedContinuation<Void, Never>] = [:]
        var watchers: [(count: Int, CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    /// Arrives at the gate and waits.
    func pass() async {
        let id = UUID()
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (mayPass, watchers) = state.withLock { state in
                    state.arrived += 1
                    let seen = state.watchers.filter { $0.count <= state.arrived }
                    state.watchers.removeAll { $0.count <= state.arrived }
                    if state.isOpen || Task.isCancelled { return (true, seen) }
                    state.waiting[id] = continuation
                    return (false, seen)
                }
                for watcher in watchers { watcher.1.resume() }
                if mayPass { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: id) }?.resume()
        }
    }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [:] }
            return Array(state.waiting.values)
        }
        for continuation in waiting { continuation.resume() }
    }

    /// Waits until this many have arrived.
    func arrivals(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.arrived >= count { return true }
                state.watchers.append((count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }
}

/// Another dispatcher, on a given gateway.
final class Helper: Sendable {
    let dispatcher: Dispatcher
    private let group: ServiceGroup
    private let service: Task<Void, Never>

    init(_ gateway: Gateway, _ upstream: FakeUpstream, pollInterval: Double = 0.05) {
        (dispatcher, group) = DispatcherHarness.dispatcher(gateway, upstream, pollInterval: pollInterval)
        let group = group
        service = Task { try? await group.run() }
    }

    deinit { service.cancel() }

    func shutDown() async {
        await group.triggerGracefulShutdown()
        await service.value
    }
}

/// Counts the concurrent entries of each key, and their maximum.
final class Traffic<Key: Hashable & Sendable>: Sendable {
    private let state = Mutex((now: [Key: Int](), most: [Key: Int]()))

    func enter(_ key: Key) {
        state.withLock { state in
            state.now[key, default: 0] += 1
            state.most[key] = max(state.most[key] ?? 0, state.now[key] ?? 0)
        }
    }

    func leave(_ key: Key) { state.withLock { $0.now[key, default: 0] -= 1 } }
    var most: [Key: Int] { state.withLock { $0.most } }
    /// Forgets the maximum.
    func reset() { state.withLock { $0.most = $0.now } }
}

/// A value that a script and its test share.
final class Shared<Value: Sendable>: Sendable {
    private let state: Mutex<Value>
    init(_ value: Value) { state = Mutex(value) }
    var value: Value {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
    func change<Result: Sendable>(_ body: (inout Value) -> Result) -> Result {
        state.withLock { value in body(&value) }
    }
}

extension DispatcherHarness {
    var key: LaneKey { LaneKey(organization: organization.id, user: phone.user) }

    /// Another user of the organization.
    func newPhone() -> Phone { Phone(gateway, organization) }

    /// Another organization with an upstream, on the same gateway.
    func newOrganization(_ settings: String = "{}", maximumConcurrency: Int = 64) async throws -> Organization {
        let plain = try await gateway.organization(settings)
        try await Self.setUpstream(plain.id, gateway, maximumConcurrency, "/id")
        return try await gateway.known(plain.id)
    }

    func execute(_ script: String) async throws {
        let connection = try await gateway.database.connect()
        try await connection.execute(script: script)
        await connection.closeAndWait()
    }

    func read(_ sql: String) async throws -> Rows {
        let connection = try await gateway.database.connect()
        let rows = try await connection.run(Query(Statement("", sql)))
        await connection.closeAndWait()
        return rows
    }

    func count(_ condition: String) async throws -> Int64 {
        try await read("SELECT count(*) FROM mutations WHERE organization_id = '\(organization.id)' AND \(condition)")
            .read(0, 0, as: Int64.self)
    }

    /// Waits until a condition holds; checks it whenever the phone's lane changes, and ten times a second.
    func until(_ description: String, _ isSo: () async throws -> Bool) async throws {
        let deadline = ContinuousClock.now + Waiting.limit
        try await gateway.store.notifier.watching(lane: key) { watch in
            while try await !isSo() {
                guard .now < deadline else {
                    Issue.record("the condition was never true: \(description)")
                    return
                }
                _ = await watch.changes(within: .milliseconds(100))
            }
        }
    }

    func mapping(_ clientID: UUID, of other: Phone? = nil) async throws -> IDMapping {
        let phone = other ?? phone
        let found = try await gateway.store.mappings.lookup(
            [clientID],
            entityType: nil,
            organization: phone.organization.id,
            user: phone.user
        )
        return IDMapping(
            entityType: "",
            client: .id(clientID),
            serverID: found.first?.serverID,
            status: try #require(found.first).status,
            mutationID: clientID
        )
    }

    /// Makes a type built-in.
    func makeBuiltIn(_ type: String) async throws {
        try await execute(
            """
            INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded)
            VALUES ('\(organization.id)', '\(type)', 'mapped', 'organization', 0, false)
            """
        )
        gateway.store.catalog.invalidate(organization.id)
    }

    // MARK: - Step by step, as a dispatcher does

    func step(
        _ step: LaneStep,
        by worker: UUID,
        through other: Gateway? = nil,
        heldUntil: Timestamp? = nil,
        releases: Bool = false
    ) async throws -> LaneAction {
        try await (other ?? gateway).store.lanes.step(
            step,
            of: key,
            worker: worker,
            heldUntil: heldUntil,
            releases: releases
        )
    }

    func outcome(_ answer: UpstreamAnswer, to dispatch: Dispatch) -> Outcome {
        OutcomePlanner(policy: RetryPolicy()).outcome(of: answer, to: dispatch, now: gateway.clock.now, jitter: 0)
    }

    func settle(_ dispatch: Dispatch, _ answer: UpstreamAnswer, by worker: UUID) async throws -> LaneAction {
        try await step(.settle(dispatch, outcome(answer, to: dispatch)), by: worker)
    }
}

extension LaneAction {
    var dispatch: Dispatch? { if case .run(let dispatch) = self { dispatch } else { nil } }
    var isLost: Bool { if case .lost = self { true } else { false } }
    var unblocking: [UUID]? { if case .proceed(_, let ids) = self { ids } else { nil } }
    var isReleased: Bool { if case .released = self { true } else { false } }
}

extension Dispatch {
    var request: UpstreamRequest? { if case .upstream(let request, _) = destination { request } else { nil } }
}

extension JSONValue {
    var attempts: Int64? { self["attempt_count"]?.int64 }
    var nextRetryAt: Timestamp? { self["next_retry_at"]?.string.flatMap(Timestamp.init(rfc3339:)) }
    var lastError: String? { self["last_error"]?.string }
    var resolution: String? { self["resolution"]?.string }
}
