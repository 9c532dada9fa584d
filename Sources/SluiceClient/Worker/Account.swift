import Foundation
import GRDB

/// The owner of the database: the user of the first token that was used with it.
enum Account {
    /// - Parameter device: the device id that the database had when the client was created; a sign-out gives the
    ///   database a new device id.
    /// - Throws: ``SluiceError/otherAccount`` for a token that names another user, ``SluiceError/signedOut`` if the
    ///   database is no longer that device's.
    static func check(_ token: String, _ database: any DatabaseWriter, _ device: UUID) async throws {
        guard let owner = TokenOwner.of(token) else { return }
        // read before each request, because only the first token of a database is stored
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

/// The pause after failed attempts. It grows with each failure of one outage, and ends with the first success.
struct BackOff: Sendable {
    static let first = 1.0
    static let limit = 60.0

    private(set) var failures = 0
    /// The last failure.
    private(set) var cause: TransientError?
    private var deadline = ContinuousClock.now

    /// The remaining time of the pause; nil without a pause.
    var remaining: Duration? {
        deadline > .now ? ContinuousClock.now.duration(to: deadline) : nil
    }

    /// Whether the gateway asked for the pause.
    var isRequested: Bool { cause?.retryAfter != nil }

    /// - Parameter least: the shortest pause, in seconds.
    mutating func fail(_ cause: TransientError? = nil, least: Double = 0) {
        failures += 1
        self.cause = cause
        let seconds = Self.seconds(failures: failures, retryAfter: cause?.retryAfter, least: least)
        deadline = ContinuousClock.now.advanced(by: .seconds(seconds))
    }

    /// Ends the pause. A further failure starts a longer pause.
    mutating func end() { deadline = .now }

    /// Returns the pause: doubled with each failure up to a minute, with jitter of a fifth, and never shorter than the
    /// gateway asked for.
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
