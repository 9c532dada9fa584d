import CLibPQ
import Glibc

/// A PGconn, which only one thread uses and frees.
final class LibPQConnection {
    enum ConnectStep {
        case reading, writing, connected, failed
    }

    let connection: OpaquePointer
    private let listener: Listener
    private let password: String?
    /// Whether the session must not be used on a server that cannot write.
    private let requiresWrites: Bool

    /// Receives notices. The listener must live as long as libpq may call it.
    private final class Listener {
        let onNotice: (@Sendable (String) -> Void)?
        /// Whether a warning that a commit was not replicated has arrived since the last call of
        /// ``LibPQConnection/takeCommitWarning()``.
        var hasCommitWarning = false
        /// Whether the server ended the session because its transaction was idle for too long.
        var wasIdleTooLong = false
        init(_ onNotice: (@Sendable (String) -> Void)?) { self.onNotice = onNotice }
    }

    /// Starts connecting. Error messages never contain a part of the URI, because any part of a malformed URI may be
    /// the password.
    ///
    /// - Parameter more: additional libpq connection parameters, which take precedence over the parameters in the URI.
    init(
        connecting configuration: ConnectionConfiguration,
        _ more: [(String, String)] = []
    ) throws(PostgresError) {
        guard let password = Self.password(in: configuration.uri) else {
            throw PostgresError(
                .unavailable,
                "the connection URI is malformed (in a password, write @ as %40, / as %2F)"
            )
        }
        self.password = password.isEmpty ? nil : password
        // libpq connects to `hostaddr`, even if `host` is another server
        if configuration.server != nil, Self.option("hostaddr", in: configuration.uri) != nil {
            throw PostgresError(.unavailable, "hostaddr in the connection URI leaves no choice of a server")
        }
        requiresWrites =
            configuration.requiresWrites && Self.option("target_session_attrs", in: configuration.uri) == nil
            && getenv("PGTARGETSESSIONATTRS") == nil
        let options =
            (requiresWrites ? [("target_session_attrs", "read-write")] : []) + [
                // A silent peer is detected within this time. The URI may override these parameters.
                ("tcp_user_timeout", "10000"), ("keepalives_idle", "30"), ("keepalives_interval", "10"),
                ("dbname", configuration.uri),
                ("application_name", configuration.applicationName), ("client_encoding", "UTF8"),
            ] + (configuration.server.map { [("host", $0.host), ("port", String($0.port))] } ?? []) + more
        let texts = options.map { strdup($0.0) } + options.map { strdup($0.1) }
        defer { for text in texts { free(text) } }
        let names = texts.prefix(options.count).map { UnsafePointer($0) } + [nil]
        let values = texts.suffix(options.count).map { UnsafePointer($0) } + [nil]
        guard let connection = PQconnectStartParams(names, values, 1) else {
            throw PostgresError(.unavailable, "out of memory")
        }
        self.connection = connection
        // messages are verbose until connected, because only verbose messages contain the SQLSTATE of a refused session
        PQsetErrorVerbosity(connection, PQERRORS_VERBOSE)
        listener = Listener(configuration.onNotice)
        PQsetNoticeReceiver(
            connection,
            { context, result in
                guard let context, let result else { return }
                let listener = Unmanaged<Listener>.fromOpaque(context).takeUnretainedValue()
                if ResultHandle.isCommitWarning(result) { listener.hasCommitWarning = true }
                if ResultHandle.isIdleTimeout(result) { listener.wasIdleTooLong = true }
                if let onNotice = listener.onNotice, let message = PQresultErrorMessage(result) {
                    onNotice(String(cString: message))
                }
            },
            Unmanaged.passUnretained(listener).toOpaque()
        )
    }

    deinit { PQfinish(connection) }

    /// The reason why the connection was lost while it had no job.
    var loss: PostgresError {
        PostgresError(listener.wasIdleTooLong ? .server(sqlState: "25P03") : .connectionLost, message)
    }

    /// Returns the password in the URI: empty without a password, nil for an invalid URI.
    ///
    /// If a password contains an `@` or `/` that is not percent-encoded, libpq interprets a part of it as host, port or
    /// database, and may quote it in messages. Such a URI is refused.
    static func password(in uri: String) -> String? {
        guard let options = PQconninfoParse(uri, nil) else { return nil }
        defer { PQconninfoFree(options) }
        var password = ""
        var option = options
        while let keyword = option.pointee.keyword {
            let value = option.pointee.val.map { String(cString: $0) } ?? ""
            switch String(cString: keyword) {
            case "password": password = value
            case "host" where value.contains("@"), "dbname" where value.contains("@"): return nil
            case "port" where !value.utf8.allSatisfy({ (48...57).contains($0) || $0 == UInt8(ascii: ",") }): return nil
            default: break
            }
            option += 1
        }
        return password
    }

    /// The value of an option in a URI or keyword string; nil if it is not set.
    private static func option(_ name: String, in uri: String) -> String? {
        guard let options = PQconninfoParse(uri, nil) else { return nil }
        defer { PQconninfoFree(options) }
        var option = options
        while let keyword = option.pointee.keyword, String(cString: keyword) != name { option += 1 }
        return option.pointee.val.map { String(cString: $0) }
    }

    // Connecting

    var hasFailed: Bool { PQstatus(connection) == CONNECTION_BAD }
    var socket: Int32 { PQsocket(connection) }
    /// The process number that the server or the pooler announced.
    var serverProcess: Int32 { PQbackendPID(connection) }

    func connectStep() -> ConnectStep {
        switch PQconnectPoll(connection) {
        case PGRES_POLLING_OK: .connected
        case PGRES_POLLING_READING: .reading
        case PGRES_POLLING_WRITING: .writing
        default: .failed
        }
    }

    /// Makes calls that send or receive return immediately instead of waiting.
    func setNonBlocking() -> Bool { PQsetnonblocking(connection, 1) == 0 }

    /// Switches from verbose to ordinary error messages.
    func usePlainErrors() { PQsetErrorVerbosity(connection, PQERRORS_DEFAULT) }

    /// The last error message, without the password.
    var message: String { Self.oneLine(fullMessage) }

    /// The last error message with all lines from libpq, without the password.
    var fullMessage: String {
        let text = PQerrorMessage(connection).map { String(cString: $0) } ?? ""
        return password.map { text.replacing($0, with: "…") } ?? text
    }

    static func oneLine(_ text: String) -> String {
        text.split(separator: "\n").joined(separator: " ")
    }

    /// Whether the session must be able to write, and the server has reported that it cannot.
    ///
    /// If `in_hot_standby` or `default_transaction_read_only` changes, PostgreSQL reports the new value with the next
    /// result. A pooler possibly does not pass on this report.
    var isReadOnly: Bool {
        requiresWrites
            && ["in_hot_standby", "default_transaction_read_only"].contains { (name: String) in
                PQparameterStatus(connection, name).map { strcmp($0, "on") == 0 } ?? false
            }
    }

    // Sending

    func enterPipeline() -> Bool { PQenterPipelineMode(connection) == 1 }
    func exitPipeline() -> Bool { PQexitPipelineMode(connection) == 1 }
    func sync() -> Bool { PQpipelineSync(connection) == 1 }
    func send(script: String) -> Bool { PQsendQuery(connection, script) == 1 }

    func sendPrepare(_ name: String, _ sql: String, _ types: [UInt32]) -> Bool {
        PQsendPrepare(connection, name, sql, Int32(clamping: types.count), types) == 1
    }

    /// Sends a prepared statement and requests binary results. libpq copies the values.
    func sendExecute(_ name: String, _ values: borrowing ValuePointers) -> Bool {
        PQsendQueryPrepared(
            connection,
            name,
            Int32(clamping: values.count),
            values.values,
            values.lengths,
            values.formats,
            1
        ) == 1
    }

    /// Sends as many buffered bytes as the socket accepts. Returns whether unsent bytes are left; nil if the connection
    /// is lost.
    func flush() -> Bool? {
        switch PQflush(connection) {
        case 0: false
        case 1: true
        default: nil
        }
    }

    // Receiving

    /// Reads from the socket; returns `false` if the connection is lost.
    func receive() -> Bool { PQconsumeInput(connection) == 1 }

    /// Whether `nextResult` would have to wait.
    var isBusy: Bool { PQisBusy(connection) == 1 }

    func nextResult() -> ResultHandle? { PQgetResult(connection).map(ResultHandle.init(owning:)) }

    /// Returns whether a commit warning has arrived since the last call (``ResultHandle/isCommitWarning(_:)``).
    func takeCommitWarning() -> Bool {
        defer { listener.hasCommitWarning = false }
        return listener.hasCommitWarning
    }

    func nextNotification() -> ConnectionConfiguration.Notification? {
        guard let notification = PQnotifies(connection) else { return nil }
        defer { PQfreemem(notification) }
        return .init(
            channel: String(cString: notification.pointee.relname),
            payload: String(cString: notification.pointee.extra)
        )
    }

    var transaction: Mailbox.Transaction {
        PQtransactionStatus(connection) == PQTRANS_IDLE ? .none : .open
    }

    func cancelKey() -> CancelKey? { PQgetCancel(connection).map(CancelKey.init(owning:)) }
}

/// Connecting and waiting, which block the thread.
extension LibPQConnection {
    /// Connects and authenticates. After that, sends and receives do not wait.
    ///
    /// - Parameter wait: waits until the socket is ready or the time is over, and returns whether the socket is ready.
    ///   The closure may throw to end the attempt.
    func connect(
        within limit: Duration,
        wait: (_ events: Int32, _ deadline: ContinuousClock.Instant) throws(PostgresError) -> Bool
    ) throws(PostgresError) {
        let deadline = ContinuousClock.now + limit
        // libpq requires the caller to begin as if the previous poll had returned `writing`
        var step = ConnectStep.writing
        while !hasFailed {
            switch step {
            case .connected:
                usePlainErrors()
                guard setNonBlocking() else { throw PostgresError(.unavailable, message) }
                return
            case .failed:
                throw PostgresError(ConnectFailure.read(fullMessage))
            case .reading, .writing:
                if ContinuousClock.now >= deadline {
                    throw PostgresError(ConnectFailure.read("connecting took too long"))
                }
                if try wait(step == .reading ? POLLIN : POLLOUT, deadline) { step = connectStep() }
            }
        }
        throw PostgresError(ConnectFailure.read(fullMessage))
    }

    /// Waits for the socket, a signal or the deadline.
    func wait(
        for events: Int32,
        or wakeUp: WakeUp,
        until deadline: ContinuousClock.Instant?
    ) -> (isReady: Bool, isSignalled: Bool) {
        var descriptors = [
            pollfd(fd: socket, events: Int16(events), revents: 0),
            pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        let ready = poll(&descriptors, 2, deadline.map(Self.milliseconds) ?? -1)
        return (ready > 0 && descriptors[0].revents != 0, ready > 0 && descriptors[1].revents != 0)
    }

    /// The remaining time in milliseconds, rounded up so that a wait does not end just before the deadline.
    private static func milliseconds(until deadline: ContinuousClock.Instant) -> Int32 {
        let left = (deadline - ContinuousClock.now) / .milliseconds(1)
        return Int32(min(max(left.rounded(.up), 0), 60_000))
    }
}
