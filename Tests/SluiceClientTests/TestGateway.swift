import Foundation
import GatewaySupport

/// A gateway in this process, as a phone accesses it.
final class TestGateway: Sendable {
    private let gateway: LiveGateway
    private let upstream: DemoServer?
    /// A proxy between the gateway and the upstream. Requests arrive late, and responses are reordered, so that the
    /// outcome of a later request reaches a lane first.
    private let line: FaultyProxy?

    var url: URL { URL(string: gateway.address) ?? URL(filePath: "/") }

    private init(_ gateway: LiveGateway, _ upstream: DemoServer?) throws {
        self.gateway = gateway
        self.upstream = upstream
        line = try upstream.map {
            try FaultyProxy(to: $0.port, faults: [.delay, .delayAnswer], rate: 0.7, SystemRandomNumberGenerator())
        }
    }

    /// - Parameters:
    ///   - forwards: whether organizations have the demo upstream, to which their mutations are forwarded.
    ///   - report: receives a line for each request to it.
    static func start(
        forwards: Bool = false,
        report: @escaping @Sendable (String) -> Void = { _ in }
    ) async throws -> TestGateway {
        // lanes always run, because settlements are processed in lane order
        try TestGateway(
            try await LiveGateway.start(forwards: true),
            forwards ? try await DemoServer.start(report: report) : nil
        )
    }

    /// A separate organization for a test.
    func makeOrganization(_ settings: String = "{}") async throws -> UUID {
        let id = UUID()
        try await gateway.makeOrganization(id, settings: settings)
        if let line {
            try await gateway.operate("/upstream", of: id, #"{"base_url":"http://127.0.0.1:\#(line.port)"}"#)
        }
        return id
    }

    /// Registers a type.
    func register(_ type: String, _ body: String, in organization: UUID) async throws {
        try await gateway.operate("/entity-types/\(type)", of: organization, body)
    }

    /// Starts to erase a user, and waits until the erasure has finished.
    func erase(_ user: UUID, in organization: UUID) async throws { try await gateway.erase(user, in: organization) }

    func token(organization: UUID, user: UUID) async throws -> String {
        try await gateway.token(organization: organization, user: user)
    }
}
