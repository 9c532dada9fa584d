import FoundationEssentials
package import Postgres
import SyncModel

/// Explains to an operator why no connection to the database can be made.
package struct ConnectionFailure: Sendable, Equatable {
    /// The finding. The text continues a sentence that begins with "the database".
    package let finding: String
    /// The remedy, without a full stop at the end.
    package let cure: String

    /// - Parameter error: the error of an attempt to connect, or of a lost connection.
    package init(_ error: PostgresError) {
        let reason = error.userMessage
        let isRefusal = error.connectFailure?.isRefusal ?? false
        finding = isRefusal ? "refuses the connection: \(reason)" : "cannot be reached: \(reason)"
        cure = Self.cure(error.connectFailure, reason)
    }

    /// The finding and the remedy, as one sentence.
    package var userMessage: String { "the database \(finding); \(cure)" }

    private static func cure(_ failure: ConnectFailure?, _ reason: String) -> String {
        let url = Setting.databaseURL.variable
        switch failure {
        case .roleMissing:
            let role = quoted(in: reason, behind: "role ") ?? "ROLE"
            return "create the role, as a superuser: createuser --pwprompt \(role); or set another user in \(url)"
        case .loginForbidden:
            let role = quoted(in: reason, behind: "role ") ?? "ROLE"
            return "allow it, as a superuser: ALTER ROLE \(role) LOGIN; or set another user in \(url)"
        case .authentication:
            return "correct user and password in \(url), or the method for this user in the server's pg_hba.conf"
        case .passwordMissing:
            return "add the password to \(url) (postgresql://user:password@host/database), to PGPASSWORD or "
                + "to ~/.pgpass"
        case .notAdmitted:
            return "add a line for this host, user and database to the server's pg_hba.conf and reload the server"
        case .roleRefused:
            return "create the role (createuser), allow it in the server's pg_hba.conf, or set another user in \(url)"
        case .databaseMissing:
            let database = quoted(in: reason, behind: "database ") ?? "DATABASE"
            return "create it: createdb --encoding UTF8 --template template0 --owner ROLE \(database); "
                + "or set another database in \(url)"
        case .databaseClosed:
            return "grant the role CONNECT on the database, or set another database in \(url)"
        case .noRoom:
            return "raise max_connections or the CONNECTION LIMIT, or lower \(Setting.databasePoolSize.variable)"
        case .notReady: return "wait until the server has started; see its log"
        case .refusedByServer: return "see the server's log"
        case .connectionRefused:
            return "start PostgreSQL there, make it listen on this address (listen_addresses, port), or correct "
                + "host and port in \(url)"
        case .socketMissing:
            return "start PostgreSQL on this host, or set its host or socket folder in \(url), such as "
                + "postgresql://user@db.example/sluice or postgresql://user@/sluice?host=/var/run/postgresql"
        case .socketForbidden:
            return "allow this user to use the socket (unix_socket_permissions, the folder's mode), or correct \(url)"
        case .hostUnknown: return "correct the host in \(url), or the resolver of this machine (DNS, /etc/hosts)"
        case .hostUnreachable: return "correct the host in \(url), or the network's routes to it"
        case .timedOut: return "correct the host in \(url), or allow the connection in the firewalls"
        case .encryption:
            return "correct sslmode, sslrootcert, sslcert and sslkey in \(url), or the server's TLS (ssl = on)"
        case nil: return "start it, or correct \(url)"
        }
    }

    /// Returns the name in double quotes that follows `word` in a text. If necessary, quotes the name for a shell.
    private static func quoted(in text: String, behind word: String) -> String? {
        guard let start = text.range(of: word + "\"")?.upperBound,
            let end = text[start...].firstIndex(of: "\"")
        else { return nil }
        let name = String(text[start..<end])
        let isPlain = name.utf8.allSatisfy {
            (0x30...0x39).contains($0) || (0x41...0x5a).contains($0) || (0x61...0x7a).contains($0) || $0 == 0x5f
        }
        return isPlain && !name.isEmpty ? name : "'" + name.replacing("'", with: #"'\''"#) + "'"
    }
}

extension PostgresError {
    /// Whether the connection or the whole database failed, not only a statement.
    package var isOfConnection: Bool { isUnavailable || kind == .timedOut }
}

extension Error {
    /// The message for people, without the error's type.
    package var userMessage: String {
        switch self {
        case let error as PostgresError: error.userMessage
        case let problem as Problem: problem.detail
        default: "\(self)"
        }
    }
}

extension Problem {
    /// The errors, each with its JSON Pointer in the input, made safe for a terminal. The array is empty if the problem
    /// lists no errors.
    package var shownErrors: [String] {
        errors.map { ($0.pointer.isEmpty ? "" : TerminalText.of($0.pointer) + ": ") + TerminalText.of($0.detail) }
    }
}
