/// The reason why a connection could not be opened. Callers use the reason to decide how to continue.
public enum ConnectFailure: String, Sendable, CaseIterable {
    // A server answered and refused the session.
    /// SQLSTATE 28000: no such role.
    case roleMissing
    /// 28000: the role has NOLOGIN.
    case loginForbidden
    /// 28P01, or 28000 from `peer`, `ident`, `cert` and similar methods.
    case authentication
    /// The server requires a password, but no password is configured.
    case passwordMissing
    /// 28000: no line of `pg_hba.conf` admits this host, role and database.
    case notAdmitted
    /// 28000 with a text that matches none of the cases above, for example because the server reports errors in another
    /// language.
    case roleRefused
    /// 3D000.
    case databaseMissing
    /// The database does not admit the role: the role lacks the CONNECT privilege (42501), or the database accepts no
    /// connections (55000).
    case databaseClosed
    /// 53300.
    case noRoom
    /// 57P03: starting up, shutting down or recovering.
    case notReady
    /// Another SQLSTATE.
    case refusedByServer

    // No server answered.
    /// Nothing listens at the host's port.
    case connectionRefused
    /// There is no Unix socket at this path.
    case socketMissing
    /// The user of this process has no permission to use the Unix socket.
    case socketForbidden
    /// The host's name cannot be resolved.
    case hostUnknown
    /// The network has no route to the host.
    case hostUnreachable
    /// Nothing answered in time.
    case timedOut
    /// TLS failed: the server does not support it, or a file or a certificate of the server or the client was refused.
    case encryption

    /// Whether a PostgreSQL server or a pooler answered.
    public var isRefusal: Bool {
        switch self {
        case .roleMissing, .loginForbidden, .authentication, .passwordMissing, .notAdmitted, .roleRefused,
            .databaseMissing, .databaseClosed, .noRoom, .notReady, .refusedByServer:
            true
        case .connectionRefused, .socketMissing, .socketForbidden, .hostUnknown, .hostUnreachable, .timedOut,
            .encryption:
            false
        }
    }
}

extension ConnectFailure {
    /// The contents of libpq's message of a failed connection.
    struct Report: Equatable {
        /// The message for people, without the parts that only verbose errors have.
        var message: String
        var failure: ConnectFailure?
        /// The code of the server's error, if a server answered.
        var sqlState: String?
    }

    /// Reads libpq's message of a failed connection, one line for each tried host.
    ///
    /// If a session could not start, libpq returns the SQLSTATE only in the text of its message. A verbose message
    /// contains the SQLSTATE between severity and text, as in `FATAL: 28000: role "x" does not exist`. The error of the
    /// first host is used, except if the server of another host has answered.
    static func read(_ text: String) -> Report {
        var report = Report(message: "")
        var lines: [String] = []
        for line in text.split(whereSeparator: \.isNewline) {
            // the location of the error in the server's source code
            if line.hasPrefix("LOCATION:  ") { continue }
            let (plain, sqlState) = withoutState(String(line))
            lines.append(plain)
            if let sqlState, report.sqlState == nil {
                report.sqlState = sqlState
                report.failure = of(sqlState, plain)
            }
            // libpq's own hint follows the error, such as "Is the server running …?"
            if report.sqlState == nil, report.failure == nil { report.failure = of(plain) }
        }
        report.message = lines.map { $0.trimmingPrefix(while: \.isWhitespace) }.joined(separator: " ")
        return report
    }

    /// Returns a line without its SQLSTATE, and the SQLSTATE.
    private static func withoutState(_ line: String) -> (String, String?) {
        guard let found = line.firstMatch(of: #/(\S:  )([0-9A-Z]{5}): /#) else { return (line, nil) }
        var plain = line
        plain.replaceSubrange(found.range, with: found.output.1)
        return (plain, String(found.output.2))
    }

    private static func of(_ sqlState: String, _ text: String) -> ConnectFailure {
        switch sqlState {
        case "28P01": .authentication
        case "28000":
            if text.contains("role \""), text.hasSuffix("does not exist") {
                .roleMissing
            } else if text.contains("is not permitted to log in") {
                .loginForbidden
            } else if text.contains("pg_hba.conf") {
                .notAdmitted
            } else if text.contains("authentication failed") {
                .authentication
            } else {
                .roleRefused
            }
        case "3D000": .databaseMissing
        case "42501", "55000": .databaseClosed
        case "53300": .noRoom
        case "57P03": .notReady
        default: .refusedByServer
        }
    }

    /// The failure for an error that libpq itself reports; nil for an unknown error.
    private static func of(_ text: String) -> ConnectFailure? {
        let isSocket = text.contains("on socket \"")
        if text.contains("no password supplied") { return .passwordMissing }
        if text.contains("could not translate host name") { return .hostUnknown }
        if isSocket, text.contains("No such file or directory") { return .socketMissing }
        if isSocket, text.contains("Permission denied") { return .socketForbidden }
        // the Unix socket of a crashed server refuses connections, just as a port without a server does
        if text.contains("Connection refused") { return .connectionRefused }
        for part in ["No route to host", "Network is unreachable", "Host is down"]
        where text.contains(part) {
            return .hostUnreachable
        }
        for part in ["timeout expired", "timed out", "took too long"] where text.contains(part) {
            return .timedOut
        }
        for part in ["SSL", "certificate", "private key", "GSSAPI encryption"] where text.contains(part) {
            return .encryption
        }
        return nil
    }
}
