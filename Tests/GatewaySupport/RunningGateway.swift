import AsyncHTTPClient
package import Foundation
import JSONText
import NIOCore
import NIOHTTP1
import TestSupport

/// A gateway that a test has started, with its operator's first actions.
package protocol RunningGateway: Sendable {
    static var operatorToken: String { get }
    /// The address of the operations listener, `http://127.0.0.1:…`.
    var operations: String { get }
    /// Whether the gateway's master keys differ from those of the environment.
    var hasOwnKeys: Bool { get }
}

extension RunningGateway {
    package var hasOwnKeys: Bool { true }

    /// Creates an organization.
    ///
    /// - Parameter settings: as JSON text.
    package func makeOrganization(_ id: UUID, settings: String = "{}") async throws {
        let settings = TestKeys.settings(settings, hasOwnKeys: hasOwnKeys)
        try await operate("", of: id, #"{"name":"Test","settings":\#(settings)}"#)
    }

    /// Sends a PUT request for a resource of an organization.
    ///
    /// - Parameters:
    ///   - path: below the organization's, such as `/upstream`.
    ///   - body: as JSON text.
    package func operate(_ path: String, of organization: UUID, _ body: String) async throws {
        try await operate(.PUT, path, of: organization, body)
    }

    /// Starts to erase a user, and waits until the erasure has finished.
    package func erase(_ user: UUID, in organization: UUID) async throws {
        try await operate(.DELETE, "/users/\(user.lowercased)?erase=true", of: organization, "")
    }

    private func operate(_ method: HTTPMethod, _ path: String, of organization: UUID, _ body: String) async throws {
        var request = HTTPClientRequest(url: "\(operations)/admin/organizations/\(organization.lowercased)\(path)")
        request.method = method
        request.headers.add(name: "authorization", value: "Bearer \(Self.operatorToken)")
        request.headers.add(name: "content-type", value: "application/json")
        if !body.isEmpty { request.body = .bytes(Array(body.utf8)) }
        let response = try await GatewayProcess.client.execute(request, timeout: .seconds(60))
        let answer = try await response.body.collect(upTo: 65_536)
        guard (200..<300).contains(response.status.code) else { throw Program.Failure(String(buffer: answer)) }
    }
}
