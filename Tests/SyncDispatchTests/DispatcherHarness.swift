import Foundation
import JSONText
import Logging
import Postgres
import ServiceLifecycle
import StoreSupport
import SyncHTTP
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore

/// An organization with an upstream, a phone, and a dispatcher that runs its lanes on a test clock.
final class DispatcherHarness: Sendable {
    let gateway: Gateway
    let organization: Organization
    let phone: Phone
    let upstream: FakeUpstream
    let dispatcher: Dispatcher
    private let group: ServiceGroup
    private let service: Task<Void, Never>

    init(
        settings: String = "{}",
        gateway: Gateway? = nil,
        upstream: FakeUpstream = FakeUpstream(),
        maximumConcurrency: Int = 64,
        idPointer: String = "/id",
        pollInterval: Double = 0.05,
        isRunning: Bool = true,
        configure: (inout DispatchConfiguration) -> Void = { _ in }
    ) async throws {
        let gateway = if let gateway { gateway } else { try await Gateway() }
        self.gateway = gateway
        let plain = try await gateway.organization(settings)
        try await Self.setUpstream(plain.id, gateway, maximumConcurrency, idPointer)
        organization = try await gateway.known(plain.id)
        phone = Phone(gateway, organization)
        self.upstream = upstream
        (dispatcher, group) = Self.dispatcher(gateway, upstream, pollInterval: pollInterval, configure: configure)
        let group = group
        service = Task { if isRunning { try? await group.run() } }
    }

    deinit { service.cancel() }

    static func dispatcher(
        _ gateway: Gateway,
        _ upstream: FakeUpstream,
        pollInterval: Double,
        configure: (inout DispatchConfiguration) -> Void = { _ in }
    ) -> (Dispatcher, ServiceGroup) {
        let clock = gateway.clock
        var configuration = DispatchConfiguration(now: { clock.now })
        configuration.pollInterval = pollInterval
        configuration.grace = 0.2
        configure(&configuration)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let dispatcher = Dispatcher(
            store: gateway.store,
            upstream: upstream,
            configuration: configuration,
            logger: logger
        )
        return (dispatcher, ServiceGroup(services: [dispatcher], logger: logger))
    }

    /// Stops the dispatcher as SIGTERM does, and returns when it has stopped.
    func shutDown() async {
        await group.triggerGracefulShutdown()
        await service.value
    }

    static func setUpstream(
        _ organization: UUID,
        _ gateway: Gateway,
        _ maximumConcurrency: Int,
        _ idPointer: String
    ) async throws {
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                INSERT INTO upstreams (organization_id, base_url, timeout_seconds, max_concurrency, id_pointer,
                    headers, updated_at)
                VALUES ('\(organization)', 'http://upstream.invalid', 30, \(maximumConcurrency), '\(idPointer)', '{}',
                    now())
                """
        )
        connection.close()
        gateway.store.catalog.invalidate(organization)
    }

    // MARK: - Mutations of a forwarded type

    func create(_ type: String = "contact", local: UUID = UUID(), payload: String? = nil, extra: [String: String] = [:])
        -> Entry
    {
        phone.entry(
            "create",
            type,
            local: local,
            payload: payload,
            extra: ["endpoint": #""/\#(type)s""#].merging(extra) { $1 }
        )
    }

    func change(
        _ operation: String,
        _ type: String = "contact",
        local: UUID? = nil,
        server: String? = nil,
        payload: String? = nil,
        extra: [String: String] = [:]
    ) -> Entry {
        let place = local == nil ? server?.trimmingCharacters(in: ["\""]) ?? "" : "{local_id}"
        return phone.entry(
            operation,
            type,
            local: local,
            server: server,
            payload: payload,
            extra: ["endpoint": #""/\#(type)s/\#(place)""#].merging(extra) { $1 }
        )
    }

    // MARK: - Reading

    /// A mutation as the API returns it.
    func mutation(_ id: UUID, of other: Phone? = nil) async throws -> JSONValue {
        let phone = other ?? phone
        let found = try await gateway.store.mutations.mutation(
            id,
            organization: phone.organization,
            user: phone.user,
            wait: .zero
        )
        return try JSONTree(parsing: #require(found).json()).root
    }

    /// Waits until a mutation reaches a state; checks after every change of the lane.
    @discardableResult
    func mutation(
        _ id: UUID,
        of other: Phone? = nil,
        becomes description: String = "what was expected",
        _ isRight: (JSONValue) -> Bool
    ) async throws -> JSONValue {
        let lane = LaneKey(organization: organization.id, user: (other ?? phone).user)
        let deadline = ContinuousClock.now + Waiting.limit
        return try await gateway.store.notifier.watching(lane: lane) { watch in
            while true {
                let mutation = try await mutation(id, of: other)
                if isRight(mutation) { return mutation }
                guard .now < deadline else {
                    Issue.record("not \(description): \(mutation.text)")
                    return mutation
                }
                _ = await watch.changes(within: .milliseconds(100))
            }
        }
    }

    @discardableResult
    func mutation(_ id: UUID, of other: Phone? = nil, is status: MutationStatus) async throws -> JSONValue {
        try await mutation(id, of: other, becomes: status.rawValue) { $0.status == status.rawValue }
    }

    /// Waits until no worker holds a lane, and returns the lane's row.
    ///
    /// A lane that finds an outcome without a request is released in a separate step.
    func restingLane(of other: Phone? = nil) async throws -> LaneState {
        try await waitUntil("the lane is released") { try await lane(of: other).lease.owner == nil }
        return try await lane(of: other)
    }

    func lane(of other: Phone? = nil) async throws -> LaneState {
        let key = LaneKey(organization: organization.id, user: (other ?? phone).user)
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let rows = try await connection.run(LaneRows.lock([key]))
        return try #require(LaneRows.lanes(rows)[key])
    }
}
