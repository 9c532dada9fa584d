package import Logging
package import Postgres
import Telemetry

/// Messages about a pooler between the gateway and its database.
package enum PoolerAdvice {
    /// Why a pooler that shares sessions is refused.
    package static let refusal =
        "a pooler that shares sessions between clients (PgBouncer in transaction or statement mode)"
    package static let reason =
        "the gateway uses prepared statements, settings and LISTEN of its sessions, and has its own pool"
    package static let remedy =
        "Set \(Setting.databaseURL.variable) to PostgreSQL itself, or to a pool in session mode "
        + "(PgBouncer: pool_mode=session for this database)."
    /// All of it in a sentence or two, for commands.
    package static let sentence = "the database is behind \(refusal): \(reason). \(remedy)"
    /// About a pooler that leaves each client its session.
    package static let notice =
        "a pooler in session mode, which adds latency and must allow all connections of each gateway"

    /// Logs it, if there is a pooler.
    package static func record(_ pooling: Pooling, to logger: Logger) {
        guard pooling == .session else { return }
        logger.notice("Database is behind a pooler", metadata: [LogKeys.reason: "\(notice)"])
    }
}
