package import SyncModel
import SyncStore

/// The settings of the public server and the operations server. They limit every resource that clients can use up.
package struct HTTPConfiguration: Sendable {
    /// The address of `/v1` (`SLUICE_PUBLIC_ADDRESS`).
    package var publicAddress = ListenAddress(host: "127.0.0.1", port: 8080)
    /// The address of health checks, metrics and `/admin` (`SLUICE_OPERATIONS_ADDRESS`).
    package var operationsAddress = ListenAddress(host: "127.0.0.1", port: 8081)
    /// The origins of web pages that may send requests (`SLUICE_CORS_ORIGINS`).
    ///
    /// If it is nil, no origin is allowed, and responses have no CORS headers.
    package var allowedOrigins: AllowedOrigins?
    /// The bearer tokens of `/admin` (`SLUICE_OPERATOR_TOKEN`). Without a token, `/admin` does not exist.
    package var operatorTokens: OperatorTokens?
    /// The organization and the user of `sluice dev`, for which the console shows first steps; nil for other gateways.
    package var demo: LaneKey?
    /// Whether the gateway has a key that signs `signed` upstream credentials (`SLUICE_SIGNING_KEY_FILE`).
    package var canSign = false
    /// The duration of a worker's lease of a lane, in seconds. An upstream's timeout must be shorter.
    package var leaseSeconds = 120

    /// Limits of a push.
    package var limits = IntakeLimits()
    /// The largest body for `/admin`, in bytes.
    package var adminBodyBytes = 65_536
    /// The maximum number of bytes of all request bodies in memory.
    ///
    /// An organization that uses its whole share receives 503 `overloaded`. A body counts from its first byte until its
    /// request is done. The body of a push counts until the commit. The setting is `SLUICE_MAX_BODY_BYTES_IN_FLIGHT`.
    package var heldBodyBytes = 67_108_864
    /// The limits of bodies whose senders are not authenticated yet: messages for sources, and sign-ins of operators.
    package var unverifiedBodies = UnverifiedBodyLimits()
    /// The maximum number of bytes of bodies that are being decoded, or that are decoded and wait for their commit.
    /// This is enough for a hundred pushes of fifty mutations, or for thousands of small pushes. A request waits for
    /// memory, and receives 503 `overloaded` if the memory is not available in time.
    package var decodedBodyBytes = 2_097_152
    /// The maximum number of bytes of all responses in memory.
    ///
    /// A request for a page waits for memory, and receives 503 `overloaded` if the memory is not available in time. A
    /// response counts until the system has accepted it for the client. The setting is
    /// `SLUICE_MAX_ANSWER_BYTES_IN_FLIGHT`.
    package var heldAnswerBytes = 67_108_864
    /// The number of pages that are read from the database concurrently. Further requests wait.
    ///
    /// The other database connections are left for short work.
    package var concurrentPages = 4
    /// The maximum number of open connections of the public server (`SLUICE_MAX_CONNECTIONS`). Further connections wait
    /// in the system's queue.
    package var maximumConnections = 10_000
    /// The maximum number of open connections of the operations server.
    package var maximumOperationsConnections = 256

    /// The time limit for the arrival of a body after its head. If it is exceeded, the response is 408.
    package var bodyTimeout: Duration = .seconds(30)
    /// The time limit for a connection to send a complete request head, including the time for which it is idle before.
    package var idleTimeout: Duration = .seconds(75)
    /// The time limit for a client to accept the bytes in the connection's send buffer.
    ///
    /// In each such period, a client must read ``leastProgress`` bytes of a large response.
    package var writeTimeout: Duration = .seconds(60)
    /// The number of bytes that a client must read within ``writeTimeout``. Otherwise the client is disconnected.
    package var leastProgress = 65_536
    /// The maximum of ``bodyTimeout`` and ``writeTimeout`` while the server shuts down.
    package var shutdownTimeout: Duration = .seconds(5)
    /// The longest `wait` that is granted. A longer `wait` is shortened to it.
    package var maximumWait: Duration = .seconds(60)

    /// Notifies upstreams of erased users during the request that erases a user. If it is nil, the service that
    /// continues erasures sends these notifications.
    package var upstream: (any Upstream)?
    /// Sends operators' probes to upstreams. If it is nil, probes are not sent.
    package var probes: (any UpstreamReader)?
    /// The maximum time for which a request that joins or erases users waits for workers to release the users' lanes.
    package var joinTimeout: Duration = .seconds(30)
    /// The seconds before a join during which neither of the two users is served. During this time, every gateway reads
    /// that the users are being joined.
    package var joinSettling = Catalog.settlingSeconds

    /// The interval at which the caller of a waiting request is checked.
    ///
    /// The waits of a suspended organization end within seven seconds, because cached organizations are at most five
    /// seconds old.
    package var checkInterval: Duration = .seconds(Catalog.waitSeconds)
    /// The interval at which a stream of events sends a keep-alive.
    package var keepAlive: Duration = .seconds(15)
    /// The interval at which callers of streams are checked. If a caller is no longer served, the stream ends within
    /// five seconds.
    package var streamCheckInterval: Duration = .seconds(4)
    /// The maximum duration of a stream of events. Clients then reconnect, possibly to another replica.
    package var maximumStream: Duration = .seconds(3_600)
    /// The maximum number of event listeners, which do not count as connections.
    ///
    /// If this number is reached, a new listener replaces the oldest listener of the organization with the most
    /// listeners. If the new listener belongs to this organization, it receives 503 instead.
    package var maximumListeners = 10_000
    /// The maximum number of listeners of one user. A further listener replaces the user's oldest listener.
    package var listenersPerUser = 100
    /// The maximum number of bytes of events that are buffered for all slow listeners. Further events wait for memory.
    package var heldEventBytes = 33_554_432

    /// The public half of the key that signs requests to upstreams: a JWKS document, served without authentication.
    package var jwks = Array(#"{"keys":[]}"#.utf8)
    /// The addresses to which webhooks may be sent.
    package var webhookAddresses = AddressPolicy()
    /// The key with which receivers verify `v1a` signatures of webhooks; nil if there are no such signatures.
    package var webhookPublicKey: String?
    /// The program's version, shown by `/livez`.
    package var version = "unknown"
    /// The commit of the program's sources, shown by `/admin/me`.
    package var commit = "unknown"
    package var now: TimeSource
    /// The storage periods that `/admin/retention` reports.
    package var retention = RetentionPolicy()

    package init(now: @escaping TimeSource) {
        self.now = now
    }
}

package struct ListenAddress: Sendable, Hashable {
    /// A name or an IP address; an IPv6 address has no brackets.
    package var host: String
    /// The port; if it is 0, the system chooses a port.
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, with an IPv6 address in brackets: `127.0.0.1:8080`, `[::1]:8080`. Returns nil for any other
    /// text.
    package init?(parsing text: String) {
        guard let colon = text.lastIndex(of: ":"),
            // only digits are accepted; `UInt16` would also accept a plus sign
            text[text.index(after: colon)...].utf8.allSatisfy({ (48...57).contains($0) }),
            let port = UInt16(text[text.index(after: colon)...])
        else { return nil }
        var host = text[..<colon]
        guard !host.contains(where: \.isWhitespace) else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty else { return nil }
        self.init(host: String(host), port: Int(port))
    }
}

extension ListenAddress: CustomStringConvertible {
    /// The text that ``init(parsing:)`` reads: `127.0.0.1:8080`.
    package var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
