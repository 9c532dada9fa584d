import CommandSupport
import Postgres
import SyncModel

struct DatabaseFacts: Sendable {
    let name: String
    /// As `server_version_num`: 150004 for 15.4.
    let versionNumber: Int
    let version: String
    let encoding: String
    let fsync: String
    let synchronousCommit: String
    let fullPageWrites: String
    let maximumConnections: Int
    let reservedConnections: Int
    /// The lowest limit of role and database; nil if they set none.
    let connectionLimit: Int?
    let hasCitus: Bool
    let autovacuum: String
    let trackCounts: String
    /// How far its clock is ahead of the host's, in seconds; half the time of asking is uncertain.
    let clockSkew: Double

    init(on connection: Connection) async throws {
        let before = SystemClock.now()
        let clock = try await connection.run(Query(Self.clock))
        let after = SystemClock.now()
        let middle = before.microseconds + (after.microseconds - before.microseconds) / 2
        clockSkew = Double(try clock.timestamp(0, 0) - middle) / 1_000_000

        let rows = try await connection.run(Query(Self.settings))
        name = try rows.string(0, 0)
        versionNumber = Int(try rows.string(0, 1)) ?? 0
        version = try rows.string(0, 2)
        encoding = try rows.string(0, 3)
        fsync = try rows.string(0, 4)
        synchronousCommit = try rows.string(0, 5)
        fullPageWrites = try rows.string(0, 6)
        maximumConnections = Int(try rows.string(0, 7)) ?? 0
        reservedConnections = Int(try rows.string(0, 8)) ?? 0
        autovacuum = try rows.string(0, 9)
        trackCounts = try rows.string(0, 10)
        hasCitus = try rows.bool(0, 13)
        connectionLimit = [try rows.string(0, 11), try rows.string(0, 12)].compactMap(Int.init).filter { $0 >= 0 }.min()
    }

    private static let clock = Statement("doctor_clock", "SELECT clock_timestamp()")

    private static let settings = Statement(
        "doctor_settings",
        """
        SELECT current_database()::text, current_setting('server_version_num'), current_setting('server_version'),
            current_setting('server_encoding'), current_setting('fsync'), current_setting('synchronous_commit'),
            current_setting('full_page_writes'), current_setting('max_connections'),
            current_setting('superuser_reserved_connections'), current_setting('autovacuum'),
            current_setting('track_counts'),
            coalesce((SELECT rolconnlimit::text FROM pg_roles WHERE rolname = current_user), '-1'),
            coalesce((SELECT datconnlimit::text FROM pg_database WHERE datname = current_database()), '-1'),
            EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')
        """
    )
}
