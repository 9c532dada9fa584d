import AsyncHTTPClient
import GatewaySupport
import NIOCore
import NIOHTTP1
import TestSupport

extension GatewayProcess {
    /// Waits until a metric without labels has this value.
    func metric(_ name: String, reaches value: Int) async throws {
        try await waitUntil("\(name) \(value)", every: .milliseconds(20)) {
            let text = try await Self.get(operations + "/metrics", token: "").text
            return text.split(separator: "\n").contains("\(name) \(value)")
        }
    }

    static func get(_ url: String, token: String, within limit: Duration = Waiting.limit) async throws -> Reply {
        var request = HTTPClientRequest(url: url)
        request.headers.add(name: "authorization", value: "Bearer \(token)")
        return try await send(request, within: limit)
    }

    static func post(
        _ url: String,
        token: String,
        prefer: String? = nil,
        body: String,
        within limit: Duration = Waiting.limit
    ) async throws -> Reply {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers.add(name: "authorization", value: "Bearer \(token)")
        request.headers.add(name: "content-type", value: "application/json")
        if let prefer { request.headers.add(name: "prefer", value: prefer) }
        request.body = .bytes(Array(body.utf8))
        return try await send(request, within: limit)
    }

    /// Sends the request once, without retries.
    private static func send(_ request: HTTPClientRequest, within limit: Duration) async throws -> Reply {
        let response = try await client.execute(request, timeout: .nanoseconds(Int64(limit / .nanoseconds(1))))
        let bytes = try await response.body.collect(upTo: 64 << 20)
        return Reply(status: Int(response.status.code), headers: response.headers, body: Array(bytes.readableBytesView))
    }
}
