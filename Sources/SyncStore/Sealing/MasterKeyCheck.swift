import Postgres
import SyncModel
import Synchronization

/// Whether the master keys that are configured here wrap what is stored.
final class MasterKeyCheck: Sendable {
    /// How long an answer is good for: a look reads every data key.
    private static let interval: Duration = .seconds(60)

    private struct Look {
        let at: ContinuousClock.Instant
        let missing: [String]
        let anyKnown: Bool
    }

    private let pool: Pool
    private let masterKeys: MasterKeys?
    private let last = Mutex<Look?>(nil)

    init(pool: Pool, masterKeys: MasterKeys?) {
        self.pool = pool
        self.masterKeys = masterKeys
    }

    /// How many data keys are wrapped by master keys that are not configured here, by these (none is where all is well),
    /// and whether there are data keys that can be had.
    func look() async throws -> (unknown: [(label: String, count: Int64)], anyKnown: Bool) {
        let rows = try await pool.run([Query(Self.mastersStatement)])[0]
        let inUse = try rows.read { (label: try $0.string("master_key"), count: try $0.int64("count")) }
        let unknown = inUse.filter { masterKeys?[$0.label] == nil }
        return (unknown, unknown.count < inUse.count)
    }

    /// The same in words; looks anew when that is a minute old.
    func missing() async throws -> ([String], anyKnown: Bool) {
        if let look = last.withLock({ $0 }), .now - look.at < Self.interval { return (look.missing, look.anyKnown) }
        let found = try await look()
        let missing = found.unknown.map { label, count in
            "\(count) data keys are wrapped by master key \(label), which is not configured"
        }
        last.withLock { $0 = Look(at: .now, missing: missing, anyKnown: found.anyKnown) }
        return (missing, found.anyKnown)
    }

    /// What the last look has found missing where others are there, so that requests are served.
    var notices: [String] { last.withLock { $0.flatMap { $0.anyKnown ? $0.missing : nil } ?? [] } }

    static let mastersStatement = Statement(
        "organization_keys_masters",
        "SELECT k.master_key, count(*) AS count FROM organization_keys k GROUP BY k.master_key ORDER BY k.master_key"
    )

    static let statements = [mastersStatement]
}
