package import Foundation

#if canImport(FoundationNetworking)
    package import FoundationNetworking
#endif

/// Sends requests to a gateway over the network or, in an app's tests, to a mock gateway.
package protocol Transport: Sendable {
    /// - Parameter seconds: the time within which the response must be complete.
    /// - Throws: `CancellationError`, `URLError`.
    func answer(to request: URLRequest, within seconds: TimeInterval) async throws -> (
        body: Data, response: URLResponse
    )
}

extension URLSession: Transport {}
