import Postgres
import SyncModel
import SyncStore

/// The statements that erase a user's rows, made from the ``StoredTable`` entries of all tables.
struct ErasedRows: Sendable {
    /// The statements that delete rows of a table.
    ///
    /// There are two statements because of Citus. On a Citus cluster, a single statement that deletes rows and inserts
    /// their hashes would copy the rows. Roles under row-level security are not allowed to copy rows.
    struct Deletion: Sendable {
        /// Deletes rows, with the parameters of ``StoredTable/Erase/batches(_:keep:)``.
        ///
        /// Returns the number of deleted rows or, if hashes are kept, the hashes of each row.
        let delete: Statement
        /// Inserts the returned hashes; nil if no hashes are kept.
        let keep: Statement?
    }

    /// The deletions that run under the lane's lock, in this order. Each transaction deletes a batch of rows of one
    /// table.
    let batches: [Deletion]
    /// The deletions from tables with one row for each user. The lane is deleted last, because its lock protects all of
    /// these deletions.
    let withLane: [Statement]
    let walks: [(scan: NamingScan, delete: Statement)]
    /// The deletions in the erasure's last transaction.
    let last: [Statement]

    init(_ tables: [StoredTable]) {
        var (first, batches): ([Deletion], [Deletion]) = ([], [])
        var (withLane, last): ([Statement], [Statement]) = ([], [])
        var walks: [(scan: NamingScan, delete: Statement)] = []
        for table in tables {
            guard let users = table.users else { continue }
            let owner = users.owner ?? "user_id"
            switch users.erase {
            case .first(let statement): first.append(Deletion(delete: statement, keep: nil))
            case .batches(let statement, let keep): batches.append(Deletion(delete: statement, keep: keep))
            case .delete: batches.append(Self.deleting(table, of: owner))
            case .deleteKeeping(let id, let fingerprint):
                batches.append(Self.deleting(table, of: owner, keeping: id, fingerprint))
            case .withLane:
                let delete = "DELETE FROM \(table.name) WHERE organization_id = :organization AND \(owner) = :user"
                withLane.append(Statement("erase_\(table.name)", ["organization", "user"], delete))
            case .scan(let scan, let delete): walks.append((scan, delete))
            case .last(let statements): last += statements
            case .step: break
            }
        }
        self.batches = first + batches
        // the lane is the first table, and must be deleted last
        self.withLane = withLane.reversed()
        self.walks = walks
        self.last = last
    }

    var statements: [Statement] {
        batches.map(\.delete) + Set(batches.compactMap(\.keep)).sorted { $0.name < $1.name } + withLane
            + walks.flatMap { [$0.scan.find, $0.delete] } + last
    }

    /// Inserts the hashes of erased ids, each with the hash of the value that the id identifies.
    static let keepNames = Statement(
        "erase_keep_names",
        ["organization", "user_hash", "hashes", "known_hashes"],
        """
        INSERT INTO erased_names AS n (organization_id, user_hash, name_hash, fingerprint_hash)
        SELECT :organization::uuid, :user_hash::bytea, k.name_hash, k.fingerprint_hash
        FROM unnest(:hashes::bytea[], :known_hashes::bytea[]) AS k (name_hash, fingerprint_hash)
        ON CONFLICT (organization_id, user_hash, name_hash) DO NOTHING
        """
    )

    /// The statement compares all columns of the key with the rows of the sub-select, including organization and user.
    /// If it compared these two columns with the parameters, PostgreSQL would read all of the user's rows for each row
    /// of the sub-select.
    ///
    /// - Parameter name: the column of the id whose hash remains.
    private static func deleting(
        _ table: StoredTable,
        of owner: String,
        keeping name: String? = nil,
        _ fingerprint: String? = nil
    ) -> Deletion {
        let keys = ["organization_id", owner] + table.key.filter { $0 != owner }
        let gone = """
            gone AS (
                DELETE FROM \(table.name) AS x
                USING (
                    SELECT \(keys.map { "y.\($0)" }.joined(separator: ", ")) FROM \(table.name) y
                    WHERE y.organization_id = :organization AND y.\(owner) = :user
                    LIMIT :limit
                ) k
                WHERE \(keys.map { "x.\($0) = k.\($0)" }.joined(separator: " AND "))
                RETURNING x.*
            )
            """
        // all of these statements have the same parameters
        let parameters = ["organization", "user", "user_hash", "limit"]
        guard let name else {
            let count = "count(*) FILTER (WHERE :user_hash::bytea IS NOT NULL) AS count"
            return Deletion(
                delete: Statement("erase_\(table.name)", parameters, "WITH \(gone) SELECT \(count) FROM gone"),
                keep: nil
            )
        }
        let delete = Statement(
            "erase_\(table.name)",
            parameters,
            """
            WITH \(gone)
            SELECT sha256(:user_hash::bytea || uuid_send(g.\(name))) AS hash,
                \(fingerprint.map { "sha256(g.\($0))" } ?? "NULL::bytea") AS known_hash
            FROM gone g
            """
        )
        return Deletion(delete: delete, keep: keepNames)
    }
}
