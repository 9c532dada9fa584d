package import SyncModel

/// The settings of both servers. Everything that a client can make grow has its bound here.
package struct HTTPConfiguration: Sendable {
    /// Where `/v1` is served; `SLUICE_PUBLIC_ADDRESS`.
    package var publicAddress = ListenAddress(host: "127.0.0.1", port: 8080)
    /// Where health, metrics and `/admin` are served; `SLUICE_OPERATIONS_ADDRESS`.
    package var operationsAddress = ListenAddress(host: "127.0.0.1", port: 8081)
    /// The bearer tokens of `/admin`, which does not exist without one; `SLUICE_OPERATOR_TOKEN`.
    package var operatorTokens: OperatorTokens?
    /// Whether there is a key to sign `signed` upstream credentials with; `SLUICE_SIGNING_KEY_FILE`.
    package var canSign = false
    /// How long a worker has a lane, in seconds; an upstream's timeout has to be shorter.
    package var leaseSeconds = 120

    /// What a push may hold.
    package var limits = IntakeLimits()
    /// The largest body that `/admin` takes, in bytes.
    package var adminBodyBytes = 65_536
    /// How many bytes of request bodies are held at the same time, over all requests; an organization that holds its
    /// part is answered 503 `overloaded`. A body counts from its first byte until what it asks for is done, a push's
    /// until it is committed. `SLUICE_MAX_BODY_BYTES_IN_FLIGHT`.
    package var heldBodyBytes = 67_108_864
    /// How many bytes of answers are held at the same time, over all requests; who asks for a page waits for room, and is
    /// answered 503 `overloaded` where none comes. An answer counts until the system has taken it for the client.
    /// `SLUICE_MAX_ANSWER_BYTES_IN_FLIGHT`.
    package var heldAnswerBytes = 67_108_864
    /// Pages that are read from the database at the same time; who asks for one more waits for a turn. The rest of the
    /// database's connections is for what is short.
    package var concurrentPages = 4
    /// Open connections of the public server; more wait in the system's queue. `SLUICE_MAX_CONNECTIONS`.
    package var maximumConnections = 10_000
    /// Open connections of the operations server.
    package var maximumOperationsConnections = 256

    /// How long a body may take to arrive, counted from the end of the head; after it, 408.
    package var bodyTimeout: Duration = .seconds(30)
    /// How long a connection may stay without a complete request head, be it silent or slow.
    package var idleTimeout: Duration = .seconds(75)
    /// How long a client may take to accept what fills the connection's send buffer. Of a large answer it has to take
    /// ``leastProgress`` bytes in this time, again and again.
    package var writeTimeout: Duration = .seconds(60)
    /// Who takes less than this many bytes within ``writeTimeout`` is cut off.
    package var leastProgress = 65_536
    /// What is left of the timeouts above once the server shuts down.
    package var shutdownTimeout: Duration = .seconds(5)
    /// The longest `wait` that is granted; a longer one is cut to this.
    package var maximumWait: Duration = .seconds(60)

    /// How often it is looked at whether a caller who waits is still served. What is known of organizations is five
    /// seconds old at most, so a suspended one's waits end within ten.
    package var checkInterval: Duration = .seconds(5)
    /// How often a stream of events shows that it is alive, and whether its caller is still served.
    package var keepAlive: Duration = .seconds(15)
    /// How long a stream of events lasts at most; clients connect again, perhaps to another replica.
    package var maximumStream: Duration = .seconds(3_600)
    /// Listeners to events, beside the connections. Where there are so many, one more ends the oldest of the organization
    /// that has the most, and is answered 503 where that is its own.
    package var maximumListeners = 10_000
    /// Listeners that one user may have; one more ends the oldest.
    package var listenersPerUser = 100
    /// How many bytes of events may wait for slow listeners, over all of them; others wait until there is room.
    package var heldEventBytes = 33_554_432

    /// The public half of the key that signs requests to upstreams: a JWKS document, served without authentication.
    package var jwks = Array(#"{"keys":[]}"#.utf8)
    /// The program's version, shown by `/livez`.
    package var version = "unknown"
    /// The clock, for tokens and `Date`.
    package var now: TimeSource
    /// For how long things are kept, as `/admin/retention` tells it.
    package var retention = RetentionPolicy()

    /// The defaults.
    package init(now: @escaping TimeSource) {
        self.now = now
    }
}
