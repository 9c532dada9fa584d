import Foundation
import Logging
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import SyncUpstream

@Suite struct HostNamesTests {
    /// A resolver that does not answer names that begin with `silent` until it is released.
    private final class Resolver: Sendable {
        private let released = DispatchSemaphore(value: 0)
        private let asked = Mutex<[String]>([])

        var names: [String] { asked.withLock { $0 } }

        func lookUp(_ host: String) -> [IPAddress] {
            asked.withLock { $0.append(host) }
            if host.hasPrefix("silent") {
                released.wait()
                released.signal()
            }
            return IPAddress("192.0.2.7").map { [$0] } ?? []
        }

        func release() { released.signal() }
    }

    private let address = IPAddress("192.0.2.7").map { HostNames.Answer.addresses([$0]) }

    @Test func `a silent name delays no other name and takes one thread`() async throws {
        let resolver = Resolver()
        let names = HostNames(threads: 4, timeout: .milliseconds(50), lookUp: resolver.lookUp)
        let (organization, other) = (UUID(), UUID())
        #expect(await names.addresses(of: "silent.example", for: organization) == .late)
        for _ in 0..<20 {
            #expect(await names.addresses(of: "silent.example", for: organization) == .late)
        }
        #expect(resolver.names == ["silent.example"])
        let patient = HostNames(threads: 4, timeout: .seconds(60), lookUp: resolver.lookUp)
        #expect(await patient.addresses(of: "other.example", for: other) == address)
        #expect(await names.addresses(of: "other.example", for: other) == address)
        resolver.release()
    }

    @Test func `an organization leaves threads for others`() async throws {
        let resolver = Resolver()
        let names = HostNames(threads: 6, timeout: .milliseconds(50), lookUp: resolver.lookUp)
        let (organization, other) = (UUID(), UUID())
        var answers: [HostNames.Answer] = []
        for number in 0..<6 {
            answers.append(await names.addresses(of: "silent\(number).example", for: organization))
        }
        #expect(answers == [.late, .late, .late, .busy, .busy, .busy])
        // the other organization has threads, but on a busy machine the resolver may take longer than this
        #expect(await names.addresses(of: "other.example", for: other) != .busy)
        resolver.release()
    }

    @Test func `a silent name resolves once its server answers`() async throws {
        let resolver = Resolver()
        let names = HostNames(threads: 2, timeout: .milliseconds(50), lookUp: resolver.lookUp)
        let organization = UUID()
        #expect(await names.addresses(of: "silent.example", for: organization) == .late)
        resolver.release()
        try await waitUntil("the name resolves") {
            await names.addresses(of: "silent.example", for: organization) == address
        }
    }

    @Test func `does not look up an address, and reuses an answer`() async throws {
        let resolver = Resolver()
        let names = HostNames(timeout: .seconds(60), lifetime: .seconds(600), lookUp: resolver.lookUp)
        #expect(await names.addresses(of: "192.0.2.7", for: UUID()) == address)
        #expect(resolver.names.isEmpty)
        for _ in 0..<3 { #expect(await names.addresses(of: "one.example", for: UUID()) == address) }
        #expect(resolver.names == ["one.example"])
    }

    @Test func `a request to a silent name is not sent`() async throws {
        let resolver = Resolver()
        let names = HostNames(threads: 2, timeout: .milliseconds(20), lookUp: resolver.lookUp)
        let upstream = HTTPUpstream(now: { noon }, names: names, logger: Logger(label: "test"))
        let settings = UpstreamSettings(baseURL: "http://silent.example")
        let request = UpstreamRequest(
            organization: UUID(),
            user: UUID(),
            method: "DELETE",
            path: "/things/1",
            idempotencyKey: UUID(),
            timeout: .seconds(30)
        )
        guard case .notSent(let reason) = await upstream.send(request, to: settings) else {
            Issue.record("the request was sent")
            return
        }
        #expect(reason.contains("resolving the host's name timed out"))
        resolver.release()
        await upstream.shutdown()
    }
}
