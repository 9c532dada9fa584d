package import SyncModel
import SyncStore

/// The settings of both servers. Everything that a client can make grow has its bound here.
package struct HTTPConfiguration: Sendable {
    /// Where `/v1` is served; `SLUICE_PUBLIC_ADDRESS`.
    package var publicAddress = ListenAddress(host: "127.0.0.1", port: 8080)
    /// Where health, metrics and `/admin` are served; `SLUICE_OPERATIONS_ADDRESS`.
    package var operationsAddress = ListenAddress(host: "127.0.0.1", port: 8081)
    /// The origins of web pages that may send requests; nil: no origin, and responses have no CORS headers.
    ///
    /// `SLUICE_CORS_ORIGINS`.
    package var allowedOrigins: AllowedOrigins?
    /// The bearer tokens of `/admin`, which does not exist without one; `SLUICE_OPERATOR_TOKEN`.
    package var operatorTokens: OperatorTokens?
    /// Whether there is a key to sign `signed` upstream credentials with; `SLUICE_SIGNING_KEY_FILE`.
    package var canSign = false
    /// How long a worker holds a lane, in seconds; an upstream's timeout has to be shorter.
    package var leaseSeconds = 120

    /// Limits of a push.
    package var limits = IntakeLimits()
    /// The largest body for `/admin`, in bytes.
    package var adminBodyBytes = 65_536
    /// Bytes of request bodies held at the same time, over all requests.
    ///
    /// An organization that holds its share receives 503 `overloaded`. A body counts from its first byte until its
    /// request is done, a push's until it is committed. `SLUICE_MAX_BODY_BYTES_IN_FLIGHT`.
    package var heldBodyBytes = 67_108_864
    /// Bounds on bodies whose senders are not authenticated yet: messages for sources, and sign-ins of operators.
    package var unverifiedBodies = UnverifiedBodyLimits()
    /// Bytes of bodies that are being decoded, or wait decoded for their commit: a hundred pushes of fifty, or
    /// thousands of small ones. A request waits for room, and receives 503 `overloaded` if there is no room in time.
    package var decodedBodyBytes = 2_097_152
    /// Bytes of responses held at the same time, over all requests.
    ///
    /// A request for a page waits for room, and receives 503 `overloaded` if there is no room in time. A response
    /// counts until the system has accepted it for the client. `SLUICE_MAX_ANSWER_BYTES_IN_FLIGHT`.
    package var heldAnswerBytes = 67_108_864
    /// Pages read from the database at the same time; further requests wait for a turn.
    ///
    /// The other database connections are left for short work.
    package var concurrentPages = 4
    /// Open connections of the public server; more wait in the system's queue. `SLUICE_MAX_CONNECTIONS`.
    package var maximumConnections = 10_000
    /// Open connections of the operations server.
    package var maximumOperationsConnections = 256

    /// How long a body may take to arrive, counted from the end of the head; after it, 408.
    package var bodyTimeout: Duration = .seconds(30)
    /// How long a connection may stay without a complete request head, whether silent or slow.
    package var idleTimeout: Duration = .seconds(75)
    /// How long a client may take to accept the bytes in the connection's send buffer.
    ///
    /// The time in which a client must read ``leastProgress`` bytes of a large response, repeatedly.
    package var writeTimeout: Duration = .seconds(60)
    /// A client that reads fewer bytes within ``writeTimeout`` is disconnected.
    package var leastProgress = 65_536
    /// The limit of the timeouts above once the server shuts down.
    package var shutdownTimeout: Duration = .seconds(5)
    /// The longest `wait` that is granted; a longer one is cut to this.
    package var maximumWait: Duration = .seconds(60)

    /// Notifies upstreams of erased users while the erasure's request waits; nil leaves that to the service that
    /// continues erasures.
    package var upstream: (any Upstream)?
    /// Sends probes to upstreams, as operators ask for them; nil: they are not sent.
    package var probes: (any UpstreamReader)?
    /// How long a request to join two users, or to erase one, waits for their lanes to come to rest.
    package var joinTimeout: Duration = .seconds(30)
    /// The seconds for which neither of two joined users is served before the join, so that every gateway has read
    /// that.
    package var joinSettling = Catalog.settlingSeconds

    /// How often the caller of a waiting request is checked.
    ///
    /// Cached organizations are five seconds old at most, so a suspended one's waits end within seven.
    package var checkInterval: Duration = .seconds(Catalog.waitSeconds)
    /// How often a stream of events sends a keep-alive.
    package var keepAlive: Duration = .seconds(15)
    /// The interval at which callers of streams are checked for whether they are still served: a stream ends within
    /// five seconds.
    package var streamCheckInterval: Duration = .seconds(4)
    /// How long a stream of events lasts at most; clients connect again, perhaps to another replica.
    package var maximumStream: Duration = .seconds(3_600)
    /// The maximum number of event listeners, in addition to the connections.
    ///
    /// Beyond it, a new one ends the oldest listener of the organization that has the most, or receives 503 if that is
    /// its own organization.
    package var maximumListeners = 10_000
    /// Listeners that one user may have; one more ends the oldest.
    package var listenersPerUser = 100
    /// Bytes of events that may wait for slow listeners, over all of them; others wait until there is room.
    package var heldEventBytes = 33_554_432

    /// The public half of the key that signs requests to upstreams: a JWKS document, served without authentication.
    package var jwks = Array(#"{"keys":[]}"#.utf8)
    /// Where webhooks may be sent.
    package var webhookAddresses = AddressPolicy()
    /// The key with which receivers verify `v1a` signatures of webhooks; nil if there are no such signatures.
    package var webhookPublicKey: String?
    /// The program's version, shown by `/livez`.
    package var version = "unknown"
    package var now: TimeSource
    /// How long data are kept, as `/admin/retention` reports it.
    package var retention = RetentionPolicy()

    package init(now: @escaping TimeSource) {
        self.now = now
    }
}

package struct ListenAddress: Sendable, Hashable {
    /// A name or an IP address; IPv6 without brackets.
    package var host: String
    /// The port; with 0 the system chooses one.
    package var port: Int

    package init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Reads `host:port`, an IPv6 address in brackets: `127.0.0.1:8080`, `[::1]:8080`. Nil for anything else.
    package init?(parsing text: String) {
        guard let colon = text.lastIndex(of: ":"),
            // digits only: `UInt16` would accept a plus sign, too
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
    /// In the form that it is parsed from: `127.0.0.1:8080`.
    package var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
