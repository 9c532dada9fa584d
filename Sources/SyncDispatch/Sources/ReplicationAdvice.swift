import Postgres
import SyncModel

/// Says what a database refused, and what to do about it.
struct ReplicationAdvice {
    let settings: ReplicationSettings

    func trouble(_ error: PostgresError) -> SourceTrouble {
        switch error.sqlState {
        case "55006":
            return SourceTrouble(
                "Slot '\(settings.slot)' is read by somebody else: \(error.message). One reader at a time has it; if that "
                    + "is another gateway or program, make a slot of its own.",
                isFatal: false
            )
        case "42704":
            return SourceTrouble("The slot or the publication is missing: \(error.message). \(Self.docs)")
        case "42501":
            return SourceTrouble(
                "The role may not do this: \(error.message). Run there: ALTER ROLE … REPLICATION (of managed databases, "
                    + "grant the role that stands for it, such as rds_replication)."
            )
        case "55000": return SourceTrouble("The slot cannot be read: \(error.message). \(Self.docs)")
        case "42703", "42883":
            return SourceTrouble("The server does not know what PostgreSQL 13 does: \(error.message).")
        default: break
        }
        if error.kind == .decoding { return SourceTrouble("What the server sends cannot be read: \(error.message).") }
        let words = SourceStoreWords.sentence(error.words)
        let known = Self.connecting.first { error.message.contains($0.sign) }
        if let known { return SourceTrouble("\(words) \(known.advice)") }
        return SourceTrouble("The database is not reached: \(words)", isFatal: !error.isUnavailable)
    }

    static let docs = "docs/ingest.md, 'A database's own tables', says how to make them."

    /// What a server says while a connection is made; there is no code for it.
    private static let connecting: [(sign: String, advice: String)] = [
        ("password authentication failed", "Give the source a secret with the right user and password."),
        ("no password supplied", "Give the source a secret with a password in it."),
        ("no pg_hba.conf entry", "Let the role connect from the gateway's address, in the server's pg_hba.conf."),
        ("must be superuser or replication role", "Run there: ALTER ROLE … REPLICATION."),
        ("permission denied to start WAL sender", "Run there: ALTER ROLE … REPLICATION."),
        ("certificate verify failed", "Its certificate is not by an authority that the gateway trusts."),
        ("server does not support SSL", "Turn TLS on there, or name another sslmode."),
    ]
}

enum SourceStoreWords {
    /// With a full stop.
    static func sentence(_ text: String) -> String { text.hasSuffix(".") ? text : text + "." }
}
