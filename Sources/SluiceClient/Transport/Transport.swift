package import Foundation

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

/// Carries requests to a gateway: over the network, or in an app's tests to the test's gateway.
package protocol Transport: Sendable {
    /// - Parameter seconds: the time until the response must be complete.
    /// - Throws: `CancellationError`, `URLError`.
    func answer(to request: URLRequest, within seconds: TimeInterval) async throws -> (
        body: Data, response: URLResponse
    )
}

extension URLSession: Transport {}
