import Foundation
import Logging
import Postgres
import ServiceLifecycle
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import RetentionFeature
@testable import SyncDispatch
@testable import SyncStore

@Suite struct RetentionServiceTests {
    /// - Parameter pollInterval: long enough that only a request starts a second run.
    private static func service(
        _ gateway: Gateway,
        interval: Double = 3_600,
        pollInterval: Double = 15
    ) -> RetentionService {
        let clock = gateway.clock
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return RetentionService(
            store: gateway.store,
            policy: RetentionPolicy(),
            interval: interval,
            pollInterval: pollInterval,
            now: { clock.now },
            logger: logger
        )
    }

    @Test func `runs when it is due and not before`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let service = Self.service(gateway)
        await service.find()
        let first = gateway.clock.now
        #expect(service.state.finishedAt == first && service.state.overdue == 0)
        try await phone.push([phone.create()])
        gateway.clock.advance(seconds: 31 * 86_400)
        await service.find()
        #expect(service.state.finishedAt == gateway.clock.now)
        let status = try await gateway.store.retentionStatus()
        #expect(status.lastReport.map { String(decoding: $0, as: UTF8.self) }?.hasPrefix(#"{"records":1"#) == true)
        let second = gateway.clock.now
        gateway.clock.advance(seconds: 3_599)
        await service.find()
        #expect(service.state.finishedAt == second)
        gateway.clock.advance(seconds: 2)
        await service.find()
        #expect(service.state.finishedAt == gateway.clock.now)
        #expect(!service.state.isRunning)
    }

    @Test func `a shorter interval applies immediately`() async throws {
        let gateway = try await Gateway()
        await Self.service(gateway, interval: 7 * 86_400).find()
        let first = gateway.clock.now
        gateway.clock.advance(seconds: 3_600)
        let service = Self.service(gateway)
        await service.find()
        #expect(service.state.finishedAt == gateway.clock.now && first < gateway.clock.now)
        let second = gateway.clock.now
        gateway.clock.advance(seconds: 3_590)
        await service.find()
        #expect(service.state.finishedAt == second)
    }

    @Test func `one of two replicas runs, and both have its result`() async throws {
        let gateway = try await Gateway()
        let other = try await Gateway(replicaOf: gateway)
        let services = [Self.service(gateway), Self.service(other)]
        await withDiscardingTaskGroup { group in
            for service in services { group.addTask { await service.find() } }
        }
        for service in services { await service.find() }
        #expect(services.map(\.state.finishedAt) == [gateway.clock.now, gateway.clock.now])
        let runs = try await gateway.read("SELECT token FROM retention_runs")
        #expect(try runs.read(0, 0, as: Int64.self) == 1)
    }

    /// A clock that advances between the end of a run and the next poll, as real clocks do.
    @Test(.onOneServer("a session's lock time-out, which is its role's on a cluster's workers"))
    func `reports skipped work until a run has done it`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let service = Self.service(gateway)
        try await phone.push([phone.create()])
        gateway.clock.advance(seconds: 9 * 86_400)
        let holder = try await gateway.database.connect()
        let lanes = "lanes WHERE organization_id = '\(phone.organization.id)'"
        try await holder.execute(script: "BEGIN; SELECT 1 FROM \(lanes) FOR UPDATE")
        await service.find()
        #expect(service.state.overdue == 2 * 86_400)
        gateway.clock.advance(seconds: 15)
        await service.find()
        #expect(service.state.overdue == 2 * 86_400)
        _ = try await holder.run([.rollback])
        holder.close()
        gateway.clock.advance(seconds: 3_600)
        await service.find()
        #expect(service.state.overdue == 0)
    }

    @Test func `runs on request and stops with its service group`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let service = Self.service(gateway, pollInterval: 86_400)
        let group = ServiceGroup(services: [service], logger: logger)
        async let running: Void = group.run()
        try await waitUntil("retention has run") { service.state.finishedAt != nil }
        try await phone.push([phone.create()])
        gateway.clock.advance(seconds: 60)
        try await gateway.store.retention.requestRun()
        try await waitUntil("retention has run again") { service.state.finishedAt == gateway.clock.now }
        await group.triggerGracefulShutdown()
        try await running
        #expect(try await gateway.store.retentionStatus().runningSince == nil)
    }
}
