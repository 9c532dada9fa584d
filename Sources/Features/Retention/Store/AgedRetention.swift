import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// Deletes by age alone: payloads, records and the rows of an ``AgedTable``.
struct AgedRetention: Retention {
    let organization: UUID
    let cutoff: Timestamp
    let rows: AgedRows
    var isDue: @Sendable (AgedRow) -> Bool = { _ in true }
    let drop: @Sendable ([UserIDRow]) -> Query
    var noteStatement: Statement?

    func page(after place: RetentionPosition?, limit: Int) -> Query {
        rows.page(organization, after: place, before: cutoff, limit: limit)
    }

    func row(_ reader: inout RowReader) throws -> AgedRow {
        var row = try AgedRow(&reader)
        row.isDue = isDue(row)
        return row
    }

    func drop(_ rows: [AgedRow], lanes: [LaneKey: LaneState], on connection: Connection) async throws -> Int {
        let keys = rows.map { UserIDRow(organization: organization, user: $0.user, id: $0.id) }
        return try await connection.run(drop(keys)).affected
    }

    func record(_ place: RetentionPosition?) -> Query? {
        guard let noteStatement else { return nil }
        let last = place == nil ? (age: cutoff, user: .least, id: .least) : place.aged
        return noteStatement(organization: organization, until: last.age, user: last.user, id: last.id)
    }
}

// MARK: - Final mutations

extension AgedRetention {
    /// Reduces final mutations to idempotency records: key, fingerprint, outcome.
    ///
    /// Mutations that are old enough for ``records(of:_:)`` are deleted completely.
    static func payloads(of organization: UUID, _ cutoffs: RetentionCutoffs) -> Self {
        Self(
            organization: organization,
            cutoff: cutoffs.payloads,
            rows: finalMutations,
            isDue: { $0.isDue && $0.age >= cutoffs.everything },
            drop: { mutations.query(shrinkStatement, $0) },
            noteStatement: noteShrunkStatement
        )
    }

    /// Deletes idempotency records.
    ///
    /// If the same device repeats a deleted mutation later, the repeat is refused and never executed, because its
    /// sequence number is below the device's watermark. A repeat by another device is a new mutation
    /// (docs/guarantees.md).
    static func records(of organization: UUID, _ cutoffs: RetentionCutoffs) -> Self {
        Self(organization: organization, cutoff: cutoffs.everything, rows: finalMutations) {
            mutations.query(deleteMutationsStatement, $0)
        }
    }

    static let mutations = UserIDRow.columns("id")

    static let finalMutations = AgedRows(
        "retention_final_mutations",
        of: "mutations",
        by: "synced_at",
        isDue: "t.payload IS NOT NULL OR t.headers IS NOT NULL OR t.sent_payload IS NOT NULL"
    )

    static let shrinkStatement = Statement(
        "retention_shrink",
        mutations.inputs,
        """
        UPDATE mutations AS m
        SET payload = NULL, headers = NULL, sent_payload = NULL
        FROM \(mutations.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
        """
    )

    static let noteShrunkStatement = Statement(
        "retention_note_shrunk",
        ["organization", "until", "user", "id"],
        """
        INSERT INTO retention_places AS p (organization_id, shrunk_until, shrunk_user, shrunk_id)
        SELECT o.id, :until, :user, :id FROM organizations o WHERE o.id = :organization
        ON CONFLICT (organization_id) DO UPDATE
        SET shrunk_until = excluded.shrunk_until, shrunk_user = excluded.shrunk_user, shrunk_id = excluded.shrunk_id
        """
    )

    /// Deletes mutations together with the history of their attempts.
    ///
    /// If other mutations still wait for a mutation, only the history of this mutation's attempts is deleted. This
    /// happens if a lane's worker was lost before it released all waiting mutations. The lane then still needs the
    /// mutation.
    static let deleteMutationsStatement = Statement(
        "retention_delete_mutations",
        mutations.inputs,
        """
        WITH past AS (
            DELETE FROM attempts AS a
            USING \(mutations.unnested(as: "k"))
            WHERE a.organization_id = k.organization_id AND a.user_id = k.user_id AND a.mutation_id = k.id
        )
        DELETE FROM mutations AS m
        USING \(mutations.unnested(as: "k"))
        WHERE m.organization_id = k.organization_id AND m.user_id = k.user_id AND m.id = k.id
            AND NOT EXISTS (
                SELECT FROM mutations w
                WHERE w.organization_id = k.organization_id AND w.user_id = k.user_id AND w.blocked_on = k.id)
        """
    )

    static let statements = [
        finalMutations.statement, shrinkStatement, noteShrunkStatement, deleteMutationsStatement,
    ]
}

/// A row of a user, with its age.
struct AgedRow: RetentionRow {
    let user: UUID
    let id: UUID
    let age: Timestamp
    var isDue: Bool

    /// Reads a row of ``AgedRows/statement``.
    init(_ row: inout RowReader) throws {
        user = try row.read("user_id")
        id = try row.read("id")
        age = try row.read("age")
        isDue = try row.read("is_due")
    }

    var place: RetentionPosition { .aged(age, user: user, id: id) }
}

/// Reads a table's rows by age, a page at a time. Rows of the same age are ordered by key.
struct AgedRows: Sendable {
    let statement: Statement

    /// - Parameters:
    ///   - owner: the column with the user.
    ///   - id: the column that distinguishes a user's rows.
    ///   - condition: a further condition on a row `t`; ends in `AND`.
    ///   - isDue: whether a row `t` is to be processed; the cutoff is `:cutoff`.
    init(
        _ name: String,
        of table: String,
        owner: String = "user_id",
        id: String = "id",
        by age: String,
        where condition: String = "",
        isDue: String = "true"
    ) {
        statement = Statement(
            name,
            ["organization", "after_age", "after_user", "after_id", "cutoff", "limit"],
            """
            SELECT t.\(owner) AS user_id, t.\(id) AS id, t.\(age) AS age, \(isDue) AS is_due
            FROM \(table) t
            WHERE t.organization_id = :organization AND \(condition) t.\(age) >= :after_age
                AND (t.\(age), t.\(owner), t.\(id)) > (:after_age, :after_user, :after_id) AND t.\(age) < :cutoff
            ORDER BY t.\(age), t.\(owner), t.\(id)
            LIMIT :limit
            """
        )
    }

    func page(_ organization: UUID, after place: RetentionPosition?, before cutoff: Timestamp, limit: Int) -> Query {
        let last = place.aged
        return statement(
            organization: organization,
            after_age: last.age,
            after_user: last.user,
            after_id: last.id,
            cutoff: cutoff,
            limit: limit
        )
    }
}

extension RetentionPosition? {
    /// The age, user and id after which a page begins.
    var aged: (age: Timestamp, user: UUID, id: UUID) {
        if case .aged(let age, let user, let id) = self { (age, user, id) } else { (.longAgo, .least, .least) }
    }
}

/// A table of users' rows that retention deletes by age alone.
struct AgedTable: Sendable {
    let name: String
    /// The kind of the rows, which determines their storage period and their counter.
    let kind: RetentionKind
    /// The column with the age.
    let age: String
    let rows: AgedRows
    let delete: Statement
    private let keys: Columns<UserIDRow>

    var statements: [Statement] { [rows.statement, delete] }

    /// Creates the statements; nil for tables that are not deleted by age.
    init?(_ table: StoredTable) {
        guard case .deleted(let age, let kind) = table.aging, let owner = table.users?.owner, let id = table.key.last
        else { return nil }
        name = table.name
        self.kind = kind
        self.age = age
        rows = AgedRows("retention_\(name)", of: name, owner: owner, id: id, by: age)
        let keys = UserIDRow.columns(id)
        self.keys = keys
        // If a row was written again after it was read, it stays. The comparison of its age is in a CASE, so that the
        // plan finds the row by key and not by age.
        delete = Statement(
            "retention_delete_\(name)",
            keys.inputs + ["cutoff"],
            """
            DELETE FROM \(name) AS r
            USING \(keys.unnested(as: "k"))
            WHERE r.organization_id = k.organization_id AND r.\(owner) = k.user_id AND r.\(id) = k.\(id)
                AND CASE WHEN r.\(age) < :cutoff THEN true END
            """
        )
    }

    func retention(of organization: UUID, _ cutoffs: RetentionCutoffs) -> AgedRetention {
        let cutoff = kind.cutoff(cutoffs)
        return AgedRetention(organization: organization, cutoff: cutoff, rows: rows) {
            keys.query(delete, $0, at: cutoff)
        }
    }
}
