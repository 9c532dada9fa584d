import Foundation
import GRDB

/// The owner of the database, which is the user of the first token that was used with the database.
enum Account {
    /// - Parameter device: the device id of the database when the client was created. After a sign-out, the database
    ///   has no device id, or a new one.
    /// - Throws: ``SluiceError/otherAccount`` if the token belongs to another user; ``SluiceError/signedOut`` if the
    ///   database has another device id or none.
    static func check(_ token: String, _ database: any DatabaseWriter, _ device: UUID) async throws {
        guard let owner = TokenOwner.of(token) else { return }
        // a read usually suffices, because the owner is stored only with the first token of a database
        var known = try await database.read { try account($0, device) }
        if known == nil {
            known = try await database.write { db in
                try db.execute(
                    sql: "UPDATE sluice_device SET account = ? WHERE account IS NULL AND device_id = ?",
                    arguments: [owner, device.wire]
                )
                return try account(db, device)
            }
        }
        guard let known else { throw SluiceError.signedOut }
        guard known == owner else { throw SluiceError.otherAccount }
    }

    private static func account(_ db: Database, _ device: UUID) throws -> String? {
        try String.fetchOne(
            db,
            sql: "SELECT account FROM sluice_device WHERE device_id = ?",
            arguments: [device.wire]
        )
    }
}

/// The pause after failed attempts. During an outage, the pause grows with each failure. It ends with the first
/// success.
struct BackOff: Sendable {
    static let first = 1.0
    static let limit = 60.0

    private(set) var failures = 0
    /// The last failure.
    private(set) var cause: TransientError?
    private var deadline = ContinuousClock.now

    /// The remaining time of the pause; nil if there is no pause.
    var remaining: Duration? {
        deadline > .now ? ContinuousClock.now.duration(to: deadline) : nil
    }

    /// Whether the gateway requested the pause.
    var isRequested: Bool { cause?.retryAfter != nil }

    /// - Parameter least: the minimum pause, in seconds.
    mutating func fail(_ cause: TransientError? = nil, least: Double = 0) {
        failures += 1
        self.cause = cause
        let seconds = Self.seconds(failures: failures, retryAfter: cause?.retryAfter, least: least)
        deadline = ContinuousClock.now.advanced(by: .seconds(seconds))
    }

    /// Ends the pause. A further failure starts a longer pause.
    mutating func end() { deadline = .now }

    /// Returns the pause. It doubles with each failure up to a minute, has a jitter of a fifth, and is never shorter
    /// than the pause that the gateway requested.
    static func seconds(
        failures: Int,
        retryAfter: Double? = nil,
        least: Double = 0,
        random: Double = .random(in: 0..<0.2)
    ) -> Double {
        let base = first * Double(1 << min(max(failures - 1, 0), 20)) * (1 + random)
        return max(min(limit, max(base, least)), (retryAfter ?? 0) * (1 + random))
    }
}
