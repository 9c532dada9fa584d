import Foundation
import GRDB

/// The lease that ensures that only one process at a time synchronizes the database.
///
/// Without the lease, each process would send all requests. The data would still be correct, because the gateway
/// accepts each write only once.
struct SyncLease: Sendable {
    /// The number of seconds for which the lease is valid without a renewal. It is longer than a request can take.
    let lease: TimeInterval

    /// The process and the id of this client, which identify the client among all clients of all processes.
    let holder: String

    /// - Parameter timeout: the maximum number of seconds of a request.
    init(timeout: TimeInterval) {
        lease = timeout + 60
        holder = "\(ProcessIdentity.own.text)/\(UUID.random().wire)"
    }

    /// - Returns: false if another client holds the lease.
    func take(_ db: Database, now: Date) throws -> Bool {
        let row = try Row.fetchOne(db, sql: "SELECT holder, expires_at FROM sluice_flight")
        if let row, isHeld(by: row["holder"], until: row["expires_at"], now: now) { return false }
        try db.execute(
            sql: "INSERT OR REPLACE INTO sluice_flight (id, holder, expires_at) VALUES (1, ?, ?)",
            arguments: [holder, now.timeIntervalSince1970 + lease]
        )
        return true
    }

    private func isHeld(by other: String, until expiry: Double, now: Date) -> Bool {
        let left = expiry - now.timeIntervalSince1970
        // a lease whose end is further away than any lease lasts was written before the clock was set back, and is
        // ignored
        guard other != holder, left > 0, left <= lease else { return false }
        return other.split(separator: "/").first.flatMap { ProcessIdentity(text: $0) }.map { !$0.isGone } ?? true
    }

    func release(_ db: Database) throws {
        try db.execute(sql: "DELETE FROM sluice_flight WHERE holder = ?", arguments: [holder])
    }
}
