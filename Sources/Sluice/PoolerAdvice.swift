import Logging
import Postgres
import Telemetry

/// Messages about a pooler between the gateway and its database.
enum PoolerAdvice {
    /// Why a pooler that shares sessions is refused.
    static let refusal =
        "a pooler that hands sessions from client to client (PgBouncer in transaction or statement mode)"
    static let reason =
        "the gateway keeps prepared statements, settings and LISTEN in its sessions, and has a pool of its own"
    static let remedy =
        "Let \(Setting.databaseURL.variable) name PostgreSQL itself, or a pool in session mode "
        + "(PgBouncer: pool_mode=session for this database)."
    /// All of it in a sentence or two, for commands.
    static let sentence = "between here and the database is \(refusal): \(reason). \(remedy)"
    /// About a pooler that leaves each client its session.
    static let notice =
        "a pooler in session mode: it works, and adds a hop; it must let a gateway have all the connections it uses"

    /// Logs it, if there is a pooler.
    static func note(_ pooling: Pooling, to logger: Logger) {
        guard pooling == .session else { return }
        logger.notice("Database is reached through a pooler", metadata: [LogKeys.reason: "\(notice)"])
    }
}
