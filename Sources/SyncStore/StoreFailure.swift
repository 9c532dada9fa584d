import Foundation
import Logging
import Postgres
import SyncModel
import Synchronization

/// Turns what the database says into what a caller is told, in one place: bland outside, everything in the log.
struct StoreFailure: Sendable {
    let logger: Logger
    private let warned = LastWarning()

    init(logger: Logger) {
        self.logger = logger
    }

    /// While the database is away everything fails in the same way: one line a second says so.
    private final class LastWarning: Sendable {
        private let at = Mutex<ContinuousClock.Instant?>(nil)

        func isDue() -> Bool {
            at.withLock { last in
                let now = ContinuousClock.now
                if let last, now - last < .seconds(1) { return false }
                last = now
                return true
            }
        }
    }

    /// A prepared statement that is not there, or that somebody else has made. Nobody but us is at our sessions, unless
    /// they are not ours.
    private static let lostStatements: Set = ["26000", "42P05"]

    /// Seconds after which to try again when the database is away.
    static let retryAfter = 2

    func problem(_ error: any Error, doing what: StaticString) -> Problem {
        if let problem = error as? Problem { return problem }
        if let error = error as? SealError { return problem(error, what) }
        guard let error = error as? PostgresError else {
            if error is CancellationError { return Self.overloaded("the request was given up") }
            logger.error("store failed", metadata: ["operation": "\(what)", "error": "\(error)"])
            return Problem(.internalError, "the request could not be completed")
        }
        if error.kind == .cancelled { return Self.overloaded("the request was given up") }
        var metadata: Logger.Metadata = ["operation": "\(what)", "error": "\(error.message)"]
        metadata["statement"] = error.statement.map { "\($0)" }
        metadata["sqlstate"] = error.sqlState.map { "\($0)" }
        if error.isRetryable {
            logger.warning("store is contended", metadata: metadata)
            return Self.overloaded("too much is going on for these entities just now")
        }
        if error.isUnavailable {
            logger.log(level: warned.isDue() ? .warning : .debug, "store is unavailable", metadata: metadata)
            return Self.unavailable
        }
        if let sqlState = error.sqlState, Self.lostStatements.contains(sqlState) {
            metadata["reason"] =
                "sessions seem to be shared: a pooler in transaction mode, which the gateway cannot work with"
            logger.log(
                level: warned.isDue() ? .error : .debug,
                "store lost its prepared statements",
                metadata: metadata
            )
            return Self.unavailable
        }
        logger.error("store refused a statement", metadata: metadata)
        return Problem(.internalError, "the request could not be completed")
    }

    /// A sealed value that cannot be opened. What another configuration or another replica may open is to be tried again;
    /// what was changed is our failure.
    private func problem(_ error: SealError, _ what: StaticString) -> Problem {
        let metadata: Logger.Metadata = ["operation": "\(what)", "reason": "\(error)"]
        switch error {
        case .locked, .unknownKey:
            logger.log(level: warned.isDue() ? .error : .debug, "sealed data cannot be opened", metadata: metadata)
            return Self.sealed
        case .damaged:
            logger.error("sealed data cannot be opened", metadata: metadata)
            return Problem(.internalError, "the request could not be completed")
        }
    }

    /// Says that an organization is not served for want of its key.
    func note(locked organization: UUID, _ reason: String) {
        logger.error(
            "organization is locked: its data cannot be opened",
            metadata: ["organization": "\(organization.uuidString.lowercased())", "reason": "\(reason)"]
        )
    }

    static var sealed: Problem {
        var problem = Problem(
            .storeUnavailable,
            "the organization's data cannot be opened just now; nothing was lost, try again"
        )
        problem.retryAfter = sealedRetryAfter
        return problem
    }

    /// What is wrong with one organization, while the database is there.
    static let sealedRetryAfter = 30

    static var unavailable: Problem {
        var problem = Problem(.storeUnavailable, "the database cannot be reached; nothing was lost, try again")
        problem.retryAfter = retryAfter
        return problem
    }

    static func overloaded(_ detail: String) -> Problem {
        var problem = Problem(.overloaded, detail + "; try again")
        problem.retryAfter = 1
        return problem
    }
}
