package import FoundationEssentials
import JSONText
package import Logging
import Metrics
import Postgres
package import SyncModel

/// Converts database errors to problems for the caller, in one place.
///
/// Responses contain no details; the log contains all of them.
package struct StoreFailure: Sendable {
    package let logger: Logger
    /// Limits the log to one line per second while the database is unavailable and all requests fail in the same way.
    private let warned = Throttle(.seconds(1), isDueFirst: true)
    private let warnedOfUnreadable = Throttle(.seconds(1), isDueFirst: true)
    /// Counts values that could not be decrypted when their rows were read.
    private let unreadable = Counter(label: StoreMetrics.unreadableValues)

    package init(logger: Logger) {
        self.logger = logger
    }

    /// SQLSTATEs for a prepared statement that is missing, or that exists although this session did not prepare it.
    ///
    /// No other program uses the gateway's sessions directly. Therefore these errors mean that a pooler shares the
    /// sessions.
    private static let lostStatements: Set = ["26000", "42P05"]

    /// Logs, at most once a second, that a response was returned without a part that could not be read.
    package func record(_ error: any Error, leavingOut what: StaticString) {
        var metadata: Logger.Metadata = ["left_out": "\(what)", "error": "\(error)"]
        if let error = error as? PostgresError {
            metadata["error"] = "\(error.message)"
            metadata["statement"] = error.statement.map { "\($0)" }
            metadata["sqlstate"] = error.sqlState.map { "\($0)" }
        }
        logger.log(level: warned.isDue() ? .warning : .debug, "A part of a response was omitted", metadata: metadata)
    }

    package func problem(_ error: any Error, doing what: StaticString) -> Problem {
        if let problem = error as? Problem { return problem }
        if let error = error as? SealError { return problem(error, what) }
        guard let error = error as? PostgresError else {
            if error is CancellationError { return .overloaded("the request was cancelled") }
            logger.error("store failed", metadata: ["operation": "\(what)", "error": "\(error)"])
            return Problem(.internalError, "the request could not be completed")
        }
        if error.kind == .cancelled { return .overloaded("the request was cancelled") }
        var metadata: Logger.Metadata = ["operation": "\(what)", "error": "\(error.message)"]
        metadata["statement"] = error.statement.map { "\($0)" }
        metadata["sqlstate"] = error.sqlState.map { "\($0)" }
        if error.isRetryable {
            logger.warning("Store is contended", metadata: metadata)
            return .overloaded("too many transactions contend for these entities")
        }
        if error.isTooLong {
            // the database is available, but this statement or its preparation took too long
            logger.warning("Store timed out", metadata: metadata)
            return Self.tooLong
        }
        if error.isUnavailable {
            logger.log(level: warned.isDue() ? .warning : .debug, "Store is unavailable", metadata: metadata)
            return .storeUnavailable
        }
        if let sqlState = error.sqlState, Self.lostStatements.contains(sqlState) {
            metadata["reason"] =
                "sessions seem to be shared by a pooler in transaction mode, which is not supported"
            logger.log(
                level: warned.isDue() ? .error : .debug,
                "Store lost its prepared statements",
                metadata: metadata
            )
            return .storeUnavailable
        }
        if error.isOfDatabase || error.sqlState == "54000" {
            // no request causes or can prevent these errors: missing permissions, damage, no transaction ids left
            // (54000)
            logger.log(level: warned.isDue() ? .error : .debug, "store refuses statements", metadata: metadata)
            return .storeUnavailable
        }
        logger.error("Store rejected a statement", metadata: metadata)
        return Problem(.internalError, "the request could not be completed")
    }

    /// The problem of a sealed value that cannot be decrypted.
    ///
    /// If another configuration or another replica may decrypt the value, the caller should try again. A value that was
    /// changed in the database is an internal error.
    private func problem(_ error: SealError, _ what: StaticString) -> Problem {
        let metadata: Logger.Metadata = ["operation": "\(what)", "reason": "\(error)"]
        switch error {
        case .locked, .unknownKey, .unknownUserKeys, .noUserKeys, .closedUserKey:
            logger.log(level: warned.isDue() ? .error : .debug, "Stored data cannot be decrypted", metadata: metadata)
            return Self.sealed
        case .damaged, .destroyedUserKey:
            logger.error("Stored data cannot be decrypted", metadata: metadata)
            return Problem(.internalError, "the request could not be completed")
        }
    }

    /// Logs that an organization is not served because its key is missing.
    package func record(locked organization: UUID, _ reason: String) {
        logger.error(
            "Organization is locked: its data cannot be decrypted",
            metadata: ["organization": "\(organization.uuidString.lowercased())", "reason": "\(reason)"]
        )
    }

    /// Logs that a value could not be decrypted, and that its row is returned without it.
    package func record(unreadable place: SealedPlace, of organization: UUID, _ error: SealError) {
        unreadable.increment()
        logger.log(
            level: warnedOfUnreadable.isDue() ? .error : .debug,
            "An encrypted value cannot be decrypted; its row is returned without it",
            metadata: [
                "organization": "\(organization.lowercased)", "row": "\(place.row)", "reason": "\(error)",
            ]
        )
    }

    package static var sealed: Problem {
        var problem = Problem(
            .storeUnavailable,
            "the organization's data cannot be decrypted at present; no data was lost, try again"
        )
        problem.retryAfter = sealedRetryAfter
        return problem
    }

    /// The `Retry-After` in seconds for a failure of one organization while the database is available.
    package static let sealedRetryAfter = 30

    /// The problem of an operation that took too long, although the database is available.
    ///
    /// The operation may take just as long the next time. Therefore the caller must wait longer than after other
    /// overloads.
    package static var tooLong: Problem {
        var problem = Problem.overloaded("the request timed out")
        problem.retryAfter = tooLongRetryAfter
        return problem
    }

    /// The `Retry-After` of ``tooLong``, in seconds.
    package static let tooLongRetryAfter = 5

    /// The problem of an operation on several mutations in one transaction.
    ///
    /// If a transaction with several mutations takes too long, the caller must send fewer mutations. An operation on a
    /// single mutation cannot be divided. The caller should retry it.
    package func problem(_ error: any Error, doing what: StaticString, count: Int, advice: String) -> Problem {
        let problem = problem(error, doing: what)
        guard count > 1, let error = error as? PostgresError, error.isTooLong, !error.isRetryable else {
            return problem
        }
        return Problem(.payloadTooLarge, advice)
    }
}

extension Problem {
    /// Whether the problem is that an organization's data cannot be decrypted.
    ///
    /// The value is false if the database is unavailable.
    package var isLocked: Bool { code == .storeUnavailable && retryAfter == StoreFailure.sealedRetryAfter }
}

extension StoreFailure {
    /// Runs `body` against the database, and converts its errors to problems for the caller.
    nonisolated(nonsending) package func reporting<Value>(
        _ what: StaticString,
        _ body: nonisolated(nonsending) () async throws -> Value
    ) async throws(Problem) -> Value {
        do {
            return try await body()
        } catch {
            throw problem(error, doing: what)
        }
    }
}

package enum StoreMetrics {
    /// The number of sealed values that could not be decrypted when their rows were read.
    package static let unreadableValues = "sluice_unreadable_values_total"
    /// The number of ingested events by `result`, a value of `IngestResult`.
    package static let ingestEvents = "sluice_ingest_events_total"
    /// The number of operator actions whose outcome could not be written to the audit log.
    package static let unfinishedActs = "sluice_audit_unfinished_total"
    /// The number of requests to upstreams, by `outcome`.
    ///
    /// The dispatcher counts the requests, and operators' views read the counter.
    package static let upstreamAttempts = "sluice_upstream_attempts_total"
    /// The number of database look-ups of subjects and of organization names.
    ///
    /// The label `outcome` is `found`, `made` (a new user) or `unknown`.
    package static let identityLookups = "sluice_identity_lookups_total"
}
