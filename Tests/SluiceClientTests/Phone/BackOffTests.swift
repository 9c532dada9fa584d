import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// The pauses of a phone whose gateway fails for a while.
@Suite struct BackOffTests {
    /// The most attempts in an outage that began at some time.
    private static func attempts(since start: ContinuousClock.Instant) -> Int {
        var rest = start.duration(to: .now)
        var attempts = 1
        while true {
            rest -= .seconds(BackOff.seconds(failures: attempts, random: 0))
            guard rest > .zero else { return attempts }
            attempts += 1
        }
    }

    @Test func `writes during an outage do not extend it`() async throws {
        let gateway = MockGateway()
        gateway.fail(.status(502))
        let phone = try MockPhone(gateway)
        let start = ContinuousClock.now
        phone.client.resume()
        for _ in 0..<12 {
            try await phone.insert()
            try await Task.sleep(for: .milliseconds(200))
        }
        let attempts = gateway.requests.count { $0.kind == .registration }
        #expect(attempts <= Self.attempts(since: start), "\(attempts)")
        let next = try #require(phone.client.currentStatus.nextAttempt)
        #expect(next.timeIntervalSinceNow <= BackOff.seconds(failures: Self.attempts(since: start), random: 0.2))
        gateway.recover()
        try await eventually("everything is pushed") { phone.client.currentStatus.pending == 0 }
        try await eventually("there is no error") { phone.client.currentStatus.lastError == nil }
        phone.client.suspend()
    }

    @Test func `a pull with occasional failures continues about a second after each failure`() async throws {
        let gateway = MockGateway()
        let pages = Locked(0)
        for number in 1...12 { gateway.put("contact", ["name": .string("\(number)")]) }
        gateway.onRequest { request in
            guard request.kind == .pull else { return nil }
            return pages.withLock { count in
                count += 1
                return count.isMultiple(of: 3) ? .status(502) : nil
            }
        }
        let phone = try MockPhone(gateway) { $0.pageLimit = 1 }
        phone.client.resume()
        let longest = Locked(0.0)
        try await eventually("everything is pulled") {
            let status = phone.client.currentStatus
            if status.lastError != nil, let next = status.nextAttempt?.timeIntervalSinceNow {
                longest.withLock { $0 = max($0, next) }
            }
            return status.snapshotRows == nil
        }
        #expect(longest.withLock { $0 } <= BackOff.seconds(failures: 1, random: 0.2))
        phone.client.suspend()
    }

    @Test func `a failing push neither slows down pulls nor is repeated with each pull`() async throws {
        let gateway = MockGateway()
        gateway.fail(.status(502), on: .push)
        let phone = try MockPhone(gateway) { $0.pullInterval = .milliseconds(200) }
        try await phone.insert()
        let start = ContinuousClock.now
        phone.client.resume()
        try await eventually("twelve pulls") { gateway.requests.count { $0.kind == .pull } > 12 }
        let pushes = gateway.requests.count { $0.kind == .push }
        #expect(pushes <= Self.attempts(since: start), "\(pushes)")
        #expect(phone.client.currentStatus.lastError != nil)
        phone.client.suspend()
    }

    @Test func `retryNow and a network that returns end the pause`() async throws {
        let gateway = MockGateway()
        let (network, continuation) = AsyncStream.makeStream(of: Void.self)
        let phone = try MockPhone(gateway) { $0.networkMonitor = ScriptedNetwork(stream: network) }
        for end in [{ phone.client.retryNow() }, { _ = continuation.yield() }] {
            gateway.fail(.status(503, retryAfter: 3_600))
            try await phone.insert()
            phone.client.resume()
            try await eventually("a long pause") {
                phone.client.currentStatus.nextAttempt.map { $0.timeIntervalSinceNow > 1_800 } ?? false
            }
            gateway.recover()
            let next = try #require(phone.client.currentStatus.nextAttempt)
            end()
            try await eventually("everything is pushed") { phone.client.currentStatus.pending == 0 }
            #expect(next.timeIntervalSinceNow > 0, "the pause ended early")
        }
        phone.client.suspend()
    }

    @Test func `no pause exceeds a minute unless the gateway asks for more`() {
        #expect(BackOff.seconds(failures: 1, random: 0) == 1 && BackOff.seconds(failures: 4, random: 0) == 8)
        #expect(BackOff.seconds(failures: 40, random: 0.2) == 60)
        #expect(BackOff.seconds(failures: 1, retryAfter: 600, random: 0) == 600)
        var outage = BackOff()
        #expect(outage.remaining == nil)
        outage.fail(least: 30)
        #expect(outage.remaining.map { $0 > .seconds(29) } == true)
    }
}

private struct ScriptedNetwork: NetworkMonitor {
    let stream: AsyncStream<Void>

    func connections() -> AsyncStream<Void> { stream }
}
