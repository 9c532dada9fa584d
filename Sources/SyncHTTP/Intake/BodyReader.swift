package import FoundationEssentials
package import HTTPTypes
import HummingbirdCore
import NIOCore
import NIOHTTPTypes
package import SyncModel

/// Reads the bodies of requests into memory, within the limits for size and memory.
package struct BodyReader: Sendable {
    /// The largest body, in bytes.
    package let limit: Int
    package let budget: FairBudget

    package init(limit: Int, budget: FairBudget) {
        self.limit = limit
        self.budget = budget
    }

    /// Passes a request's JSON text to `use`. Only its media type and size are checked.
    ///
    /// The text counts toward the memory budget until `use` returns. `use` must not keep a part of it.
    ///
    /// - Parameter isOptional: whether the body may be absent. For an absent body `use` gets no bytes, and no media
    ///   type is required.
    package func withBody<Result>(
        of exchange: Exchange,
        isOptional: Bool = false,
        _ use: ([UInt8]) async throws -> Result
    ) async throws -> Result {
        if isOptional, hasNone(exchange.headers) { return try await use([]) }
        try MediaType.requireJSON(exchange.headers)
        let announced = try announcedLength(exchange.headers)
        if exchange.headers[.expect]?.lowercased() == "100-continue" { try await invite(exchange.channel) }
        var held = 0
        defer { budget.release(held, of: exchange.user) }
        let body = try await collect(exchange.request.body, announced: announced) { part throws(Problem) in
            try budget.take(part, for: exchange.user, excluding: held)
            held += part
        }
        exchange.act?.record(membersOf: body)
        return try await use(body)
    }

    /// Passes a body to `use` before its sender is authenticated.
    ///
    /// The body counts toward a separate budget instead of ``budget``.
    ///
    /// - Parameter source: the source or the other receiver to which the body is addressed; nil if it is unknown.
    package func withUnverifiedBody<Result>(
        of exchange: Exchange,
        addressedTo source: UUID?,
        _ use: ([UInt8], UnverifiedBodies.Arrival) async throws -> Result
    ) async throws -> Result {
        try MediaType.requireJSON(exchange.headers)
        let announced = try announcedLength(exchange.headers)
        if exchange.headers[.expect]?.lowercased() == "100-continue" { try await invite(exchange.channel) }
        let address = exchange.channel.remoteAddress?.ipAddress ?? ""
        let origin = source.map { UnverifiedBodyBudget.Origin(source: $0, address: address) } ?? .unknown
        let arrival = exchange.budgets.unverified.begin(origin, on: exchange.channel)
        defer { arrival.end() }
        let body = try await collect(exchange.request.body, announced: announced) { part throws(Problem) in
            try arrival.take(part)
        }
        arrival.complete()
        return try await use(body, arrival)
    }

    private func hasNone(_ headers: HTTPFields) -> Bool {
        guard let length = headers[.contentLength] else { return headers[.transferEncoding] == nil }
        return length == "0"
    }

    /// Returns `Content-Length`; refuses a body that is too large before reading it.
    private func announcedLength(_ headers: HTTPFields) throws(Problem) -> Int? {
        guard let text = headers[.contentLength] else { return nil }
        // the parser has refused all texts except digits; digits that do not fit into an Int exceed every limit
        guard let length = Int(text), length <= limit else { throw tooLarge }
        return length
    }

    /// - Parameter take: reserves memory for bytes that have arrived.
    private func collect(
        _ body: RequestBody,
        announced: Int?,
        _ take: (Int) throws(Problem) -> Void
    ) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        do {
            for try await part in body {
                guard bytes.count + part.readableBytes <= limit else { throw tooLarge }
                try take(part.readableBytes)
                if bytes.isEmpty { bytes.reserveCapacity(firstCapacity(part.readableBytes, announced)) }
                bytes.append(contentsOf: part.readableBytesView)
            }
        } catch let problem as Problem {
            throw problem
        } catch is CancellationError {
            throw CancellationError()
        } catch is BodyTimedOut {
            throw Problem(.requestTimeout, "The body did not arrive in time.")
        } catch {
            // the client disconnected or violated the framing, and will probably not read this error
            throw Problem(.invalidRequest, "The body is incomplete.")
        }
        if let announced, bytes.count < announced {
            throw Problem(.invalidRequest, "The body is incomplete.")
        }
        return bytes
    }

    /// The initial capacity for a body.
    ///
    /// A body that arrives in one part fits, and is copied once. The announced length of a longer body counts only up
    /// to 64 KiB, because a body must not use memory before it arrives.
    private func firstCapacity(_ arrived: Int, _ announced: Int?) -> Int {
        max(arrived, min(announced ?? 0, 65_536))
    }

    /// Responds to `Expect: 100-continue`.
    private func invite(_ channel: any Channel) async throws {
        try await channel.writeAndFlush(HTTPResponsePart.head(HTTPResponse(status: .continue)))
    }

    private var tooLarge: Problem {
        Problem(.payloadTooLarge, "The body must not exceed \(limit) bytes.")
    }
}

/// Checks that a body is uncompressed JSON, as endpoints require.
package enum MediaType {
    /// - Throws: `unsupported_media_type`.
    package static func requireJSON(_ headers: HTTPFields) throws(Problem) {
        if let encoding = headers[.contentEncoding], !isIdentity(encoding) {
            throw Problem(.unsupportedMediaType, "Content-Encoding must be absent or identity.")
        }
        guard let type = headers[.contentType], isJSON(type) else {
            throw Problem(.unsupportedMediaType, "Content-Type must be application/json.")
        }
    }

    /// Whether a value is `application/json`, with any parameters. Parameters are ignored, because JSON is always UTF-8
    /// (RFC 8259, 11).
    package static func isJSON(_ value: String) -> Bool {
        if value == "application/json" { return true }
        let type = value.utf8.prefix { $0 != UInt8(ascii: ";") }
        return type.trimmed.lowercased == "application/json" && isOne(value)
    }

    /// Whether a value comes from a single header field. The values of repeated fields are joined by commas. A single
    /// value contains a comma only within quotes.
    private static func isOne(_ value: String) -> Bool {
        var isQuoted = false
        var isEscaped = false
        for byte in value.utf8 {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = isQuoted
            } else if byte == UInt8(ascii: "\"") {
                isQuoted.toggle()
            } else if byte == UInt8(ascii: ","), !isQuoted {
                return false
            }
        }
        return true
    }

    package static func isIdentity(_ value: String) -> Bool {
        value.utf8.split(separator: UInt8(ascii: ",")).allSatisfy {
            $0.trimmed.lowercased == "identity"
        }
    }
}
