import Foundation
import Logging
import SyncModel
import SyncUpstream

let organization = uuid("00000000-0000-4000-8000-00000000000A")
let user = uuid("00000000-0000-4000-8000-00000000000B")
let key = uuid("00000000-0000-4000-8000-00000000000C")

/// 2026-11-20T07:00:00Z.
let noon = Timestamp(microseconds: 1_795_158_000_000_000)

func uuid(_ text: String) -> UUID { UUID(uuidString: text) ?? UUID() }

extension HTTPUpstreamConfiguration {
    /// A configuration with which a slow machine causes no connection time-out.
    static var patient: HTTPUpstreamConfiguration {
        var configuration = HTTPUpstreamConfiguration()
        configuration.connectTimeout = .seconds(60)
        return configuration
    }
}

/// An upstream client for the duration of a call.
func withUpstream<Result>(
    _ configuration: HTTPUpstreamConfiguration = .patient,
    sign: HTTPUpstream.Sign? = nil,
    _ body: (HTTPUpstream) async throws -> Result
) async throws -> Result {
    let upstream = HTTPUpstream(configuration: configuration, sign: sign, now: { noon }, logger: Logger(label: "test"))
    do {
        let result = try await body(upstream)
        await upstream.shutdown()
        return result
    } catch {
        await upstream.shutdown()
        throw error
    }
}

/// A request with defaults for everything that a test does not specify.
func request(
    _ method: String = "POST",
    _ path: String = "/items",
    headers: [ByteExactString: String] = [:],
    ifMatch: String? = nil,
    isUnconditional: Bool = false,
    body: String? = #"{"a":1}"#,
    traceparent: String? = nil,
    timeout: Duration = .seconds(60)
) -> UpstreamRequest {
    var request = UpstreamRequest(
        organization: organization,
        user: user,
        method: method,
        path: path,
        headers: headers,
        body: body.map { Array($0.utf8) },
        idempotencyKey: key,
        timeout: timeout
    )
    request.ifMatch = ifMatch
    request.isUnconditional = isUnconditional
    request.trace = traceparent.flatMap(TraceContext.init(traceparent:))
    return request
}

extension UpstreamAnswer {
    var response: UpstreamResponse? {
        if case .response(let response) = self { response } else { nil }
    }

    var notSent: String? {
        if case .notSent(let reason) = self { reason } else { nil }
    }

    var refused: String? {
        if case .refused(let reason) = self { reason } else { nil }
    }

    var unready: String? {
        if case .unready(let reason) = self { reason } else { nil }
    }

    var unknown: String? {
        if case .unknown(let reason) = self { reason } else { nil }
    }
}

extension UpstreamResponse {
    var text: String? { json.map { String(decoding: $0, as: UTF8.self) } }
}
