import AsyncHTTPClient
package import Logging
import NIOCore
import NIOHTTP1
package import SyncModel

/// Fetches small documents from identity providers, and checks whether servers respond. It sends no credentials.
///
/// The reader follows no redirects. If it did, an attacker who can make a provider redirect requests could choose the
/// keys that the gateway trusts. If a document has moved, the operator configures the final URL.
package final class HTTPReader: Sendable {
    /// The time limit of a request.
    package static let timeout: Duration = .seconds(5)
    /// The longest document, in bytes.
    package static let maximumBytes = 1_048_576

    private let client: HTTPClient
    private let userAgent: String
    private let logger: Logger

    /// Creates a reader without connections. Call ``shutdown()`` before the last reference is released.
    package init(version: String, logger: Logger) {
        var configuration = HTTPUpstreamConfiguration()
        configuration.connectTimeout = .seconds(3)
        configuration.connectionsPerHost = 8
        client = HTTPClient(configuration.client)
        userAgent = "sluice/\(version)"
        self.logger = logger
    }

    package func shutdown() async {
        do {
            try await client.shutdown()
        } catch {
            logger.debug("Connections were not closed", metadata: ["error": "\(type(of: error))"])
        }
    }

    /// Fetches a key set, unless the server reports that the key set's `ETag` is unchanged. The request takes at most 5
    /// seconds.
    package func keySet(_ url: String, _ etag: String?) async -> KeySetAnswer {
        var headers = [("Accept", "application/jwk-set+json, application/json")]
        if let etag { headers.append(("If-None-Match", etag)) }
        switch await get(url, headers: headers) {
        case .failure(let reason):
            return .failed(reason.text)
        case .success(let response):
            let (status, fields) = (response.head.status.code, response.head.headers)
            let cacheControl =
                fields.contains(name: "Cache-Control") ? fields["Cache-Control"].joined(separator: ",") : nil
            switch status {
            case 200:
                guard let body = response.body else { return .failed("the document is too large") }
                let etag = fields.first(name: "ETag").map(HeaderField.trimmed).flatMap {
                    $0.utf8.count <= 1_000 ? $0 : nil
                }
                return .document(Array(body.readableBytesView), etag: etag, cacheControl: cacheControl)
            case 304: return .unchanged(cacheControl: cacheControl)
            case 300..<400: return .failed("a redirect (\(status)), which is not followed; use the final URL")
            default: return .failed("status \(status)")
            }
        }
    }

    /// Checks whether a server responds, within 5 seconds.
    ///
    /// - Returns: the status of the response, or the reason why there was no response.
    package func probe(_ url: String) async -> Result<Int, ProbeFailure> {
        await get(url, headers: [("Accept", "*/*"), ("Connection", "close")]).map { Int($0.head.status.code) }
    }

    package struct ProbeFailure: Error, Sendable {
        /// The reason in a few words, without secrets.
        package let text: String
    }

    private func get(_ url: String, headers: [(String, String)]) async -> Result<CollectedResponse, ProbeFailure> {
        if let problem = KeySetURL.problem(url) { return .failure(ProbeFailure(text: "the URL \(problem)")) }
        guard let request = request(url, headers: headers) else {
            return .failure(ProbeFailure(text: "the URL cannot be used"))
        }
        let collector = ResponseCollector(maximumBytes: Self.maximumBytes)
        let deadline = NIODeadline.now() + TimeAmount(Self.timeout)
        let task = client.execute(request: request, delegate: collector, deadline: deadline)
        do {
            let response = try await withTaskCancellationHandler {
                try await task.futureResult.get()
            } onCancel: {
                task.cancel()
            }
            return .success(response)
        } catch {
            if let response = collector.cutResponse { return .success(response) }
            let reason = RequestFailure(error).reason(
                isSent: collector.isSent,
                isTLS: request.scheme == "https",
                timeout: Self.timeout
            )
            return .failure(ProbeFailure(text: reason))
        }
    }

    private func request(_ url: String, headers: [(String, String)]) -> HTTPClient.Request? {
        var fields = HTTPHeaders(headers)
        fields.add(name: "User-Agent", value: userAgent)
        return try? HTTPClient.Request(url: url, method: .GET, headers: fields)
    }
}
