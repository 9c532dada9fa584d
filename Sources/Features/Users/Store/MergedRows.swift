import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// The statements that move a user's rows to another user, made from the ``StoredTable`` entries of all tables.
struct MergedRows: Sendable {
    /// The statements that move the rows of each table. All of them run in one transaction, in the order of the
    /// entries.
    ///
    /// `values` lists a statement's parameters after the organization, the user and the target. It is nil if the
    /// organization and the user are the statement's only parameters.
    let moves: [(statement: Statement, values: [StoredTable.MergeValue]?)]
    /// Counts the rows of the user (`user`). In each table, the count stops at one row more than the limit.
    let count: Statement
    /// Returns one row of truth values. The first is whether an operator has provisioned only one of the users. The
    /// others follow ``collided``: for each entry, whether rows of both users have the same key.
    ///
    /// If both users had rows with the same id, a later reference to this id would be ambiguous. Client ids and all
    /// other ids are random, so collisions do not occur with apps that generate ids as required.
    let collisions: Statement
    let collided: [StoredTable.Collision]
    /// The tables in which users' values are sealed.
    ///
    /// The id of a row's user is a part of the data that authenticate the row's sealed values. Therefore the values
    /// must be sealed again for the target.
    let sealed: [SealedTable]

    init(_ tables: [StoredTable]) {
        var moves: [(statement: Statement, values: [StoredTable.MergeValue]?)] = []
        var counted: [String] = []
        var collided: [(collision: StoredTable.Collision, condition: String)] = []
        for table in tables {
            guard let users = table.users else { continue }
            let owner = users.owner ?? "user_id"
            let moving: StoredTable.Moving
            switch users.merge {
            case .keep, .step: continue
            case .adopt(let condition):
                moves.append((Self.adopting(table, of: owner, where: condition), []))
                moves.append((Self.leaving(table, owner), nil))
                continue
            case .rename(let conditions):
                moves.append((Self.renaming(table, owner), []))
                moving = conditions
            case .update(let statement, let values, let conditions):
                moves.append((statement, values))
                moving = conditions
            }
            if moving.isCounted { counted.append(Self.count(of: table, owner)) }
            guard let collision = moving.collision else { continue }
            collided.append((collision, Self.meets(table, table, table.key.filter { $0 != owner })))
        }
        collided.append((StoredTable.Collision("an idempotency key"), Self.sharesKey(tables)))
        self.moves = moves
        self.collided = collided.map(\.collision)
        sealed = tables.compactMap(SealedTable.init)
        count = Statement("join_count", ["organization", "user"], "SELECT \(counted.joined(separator: " + ")) AS rows")
        let conditions = collided.map { "(\($0.condition))" }
        collisions = Statement(
            "join_collisions",
            ["organization", "user", "into"],
            "SELECT \(([JoinStatements.isOneShutOut] + conditions).joined(separator: ",\n    "))"
        )
    }

    /// The amounts by which a move increases the user's positions: `positions` is added to each mutation's position in
    /// the lane, and `changes` is added to each change position.
    typealias Shift = (positions: Int64, changes: Int64)

    var statements: [Statement] { moves.map(\.statement) + [count, collisions] }

    /// The queries that move a user's rows.
    func queries(from user: LaneKey, to target: UUID, _ shift: Shift, at now: Timestamp) -> [Query] {
        moves.map { statement, values in
            guard let values else { return statement(organization: user.organization, user: user.user) }
            var parameters = Parameters(of: user, target)
            for value in values {
                switch value {
                case .positions: parameters.add(shift.positions)
                case .changes: parameters.add(shift.changes)
                case .now: parameters.add(now)
                }
            }
            return Query(statement, parameters)
        }
    }

    // MARK: - Statements

    private static func renaming(_ table: StoredTable, _ owner: String) -> Statement {
        Statement(
            "join_\(table.name)",
            ["organization", "user", "into"],
            "UPDATE \(table.name) AS x SET \(owner) = :into WHERE x.organization_id = :organization AND x.\(owner) = :user"
        )
    }

    private static func adopting(_ table: StoredTable, of owner: String, where condition: String) -> Statement {
        let others = Set(table.columns).subtracting(["organization_id", owner]).sorted()
        return Statement(
            "join_\(table.name)",
            ["organization", "user", "into"],
            """
            INSERT INTO \(table.name) AS t (organization_id, \(owner), \(others.joined(separator: ", ")))
            SELECT x.organization_id, :into::uuid, \(others.map { "x.\($0)" }.joined(separator: ", ")) FROM \(table.name) x
            WHERE x.organization_id = :organization AND x.\(owner) = :user AND \(condition)
            ON CONFLICT (organization_id, \(owner)) DO NOTHING
            """
        )
    }

    private static func leaving(_ table: StoredTable, _ owner: String) -> Statement {
        Statement(
            "join_leave_\(table.name)",
            ["organization", "user"],
            "DELETE FROM \(table.name) WHERE organization_id = :organization AND \(owner) = :user"
        )
    }

    private static func count(of table: StoredTable, _ owner: String) -> String {
        """
        (SELECT count(*) FROM (
            SELECT 1 FROM \(table.name) x WHERE x.organization_id = :organization AND x.\(owner) = :user
            LIMIT \(MergePreconditions.rowLimit + 1)) y)
        """
    }

    /// SQL: whether the users share an idempotency key. A key is unique among all mutations and rejections of a user.
    private static func sharesKey(_ tables: [StoredTable]) -> String {
        let keyed = tables.filter { $0.users?.owner != nil && $0.columns.contains("idempotency_key") }
        let pairs = keyed.flatMap { own in keyed.map { meets(own, $0, ["idempotency_key"]) } }
        return pairs.map { "(\($0))" }.joined(separator: " OR ")
    }

    /// SQL: whether a row of the user (`user`) in the first table and a row of the target (`into`) in the second table
    /// have the same values in the given columns.
    private static func meets(_ own: StoredTable, _ other: StoredTable, _ columns: [String]) -> String {
        let (owner, others) = (own.users?.owner ?? "user_id", other.users?.owner ?? "user_id")
        return """
            SELECT count(*) > 0 FROM (
                    SELECT 1 FROM \(own.name) a
                    CROSS JOIN LATERAL (
                        SELECT 1 FROM \(other.name) b
                        WHERE b.organization_id = :organization AND b.\(others) = :into
                            AND \(columns.map { "b.\($0) = a.\($0)" }.joined(separator: " AND "))
                        OFFSET 0
                    ) z
                    WHERE a.organization_id = :organization AND a.\(owner) = :user
                    LIMIT 1
                ) y
            """
    }
}
