package import Postgres
package import SyncModel

/// A table of the schema, described once: its columns, and how the jobs over all tables treat its rows.
///
/// The engine lists its tables in ``engine``, and each feature lists its own tables. Jobs process the tables in the
/// order of these lists. Tests compare the entries with the schema, so that no table and no column is forgotten.
package struct StoredTable: Sendable {
    /// The effect of an organization's purge on the table's rows.
    package enum Purge: Sendable {
        /// Deletes the rows in small batches.
        case batches
        /// Deletes the rows in the last transaction, because earlier steps of the purge need some of the rows. The
        /// table has few rows.
        case last
        /// Deletes the rows after the rows of all other tables, because the other tables refer to these rows.
        case end
        /// Keeps the rows, and runs this statement in batches instead. The statement has the parameters `organization`
        /// and `limit`.
        case keep(Statement)
        /// The table has no rows of organizations.
        case none
    }

    package let name: String
    /// The columns of the primary key, in its order, without the organization.
    package let key: [String]
    package let purge: Purge
    /// Whether `sluice organizations purge` shows the table's number of rows.
    package let isShown: Bool
    /// Columns with ids, numbers, states and times that no export shows.
    package private(set) var plain: [String] = []
    /// The columns with JSON or bytes that are stored unsealed, because they have no content of users.
    package private(set) var open: [String] = []
    package private(set) var users: Users?
    package private(set) var export: Export?
    package private(set) var sealing: Sealing?
    package private(set) var aging: Aging?

    package init(_ name: String, key: [String], purge: Purge = .batches, isShown: Bool = false) {
        self.name = name
        self.key = key
        self.purge = purge
        self.isShown = isShown
    }

    /// The column with the organization, in a table with rows of organizations.
    package var organization: String? {
        switch purge {
        case .none: nil
        case .end: "id"
        case .batches, .last, .keep: "organization_id"
        }
    }

    /// All columns, each at least once.
    package var columns: [String] {
        [organization].compactMap(\.self) + key + plain + open + (users?.columns ?? [])
            + (export?.columns.map(\.name) ?? []) + (sealing?.columns ?? [])
    }
}

// MARK: - Columns

extension StoredTable {
    package func plain(_ columns: String...) -> Self {
        var copy = self
        copy.plain += columns
        return copy
    }

    package func open(_ columns: String...) -> Self {
        var copy = self
        copy.open += columns
        return copy
    }

    /// - Parameters:
    ///   - owner: the column with the user to whom the rows belong.
    ///   - names: further columns that name users.
    package func owned(by owner: String, naming names: [String] = [], erase: Erase, merge: Merge) -> Self {
        var copy = self
        copy.users = Users(owner: owner, names: names, erase: erase, merge: merge)
        return copy
    }

    /// The columns of a table that names users, but has no rows of users.
    package func naming(_ names: String..., erase: Erase, merge: Merge) -> Self {
        var copy = self
        copy.users = Users(owner: nil, names: names, erase: erase, merge: merge)
        return copy
    }

    package func exported(_ export: Export) -> Self {
        var copy = self
        copy.export = export
        return copy
    }

    package func sealed(_ sealing: Sealing) -> Self {
        var copy = self
        copy.sealing = sealing
        return copy
    }

    package func aging(_ aging: Aging) -> Self {
        var copy = self
        copy.aging = aging
        return copy
    }
}

// MARK: - Users

extension StoredTable {
    /// The columns that name users, and the effects of an erasure and a merge of users.
    package struct Users: Sendable {
        /// The column with the user to whom the rows belong; nil if the table only names users.
        package let owner: String?
        /// Further columns that name users.
        package let names: [String]
        package let erase: Erase
        package let merge: Merge

        package var columns: [String] { [owner].compactMap(\.self) + names }
    }

    /// The effect of an erasure of a user.
    package enum Erase: Sendable {
        /// Deletes the user's rows in batches, under the lane's lock.
        case delete
        /// Deletes the rows as ``delete`` does. Keeps hashes of an id and of a fingerprint, by which repeats are
        /// recognized.
        case deleteKeeping(hashOf: String, fingerprint: String? = nil)
        /// Runs this statement in batches, under the lane's lock.
        ///
        /// - Parameters of the statement: `organization`, `user`, `user_hash`, `limit`. The statement returns the
        ///   number of rows. If `keep` stores hashes, the statement returns a row of hashes (`hash`, `known_hash`) for
        ///   each deleted row instead.
        case batches(Statement, keep: Statement? = nil)
        /// Runs this statement as ``batches(_:keep:)`` does, but before the steps of other tables, because the
        /// statement reads rows of those tables.
        case first(Statement)
        /// Deletes the user's single row together with the lane.
        case withLane
        /// Deletes the rows that a scan of the table finds. The parameters are `organization`, `users`, and the two
        /// columns of the key as texts (`first_keys`, `second_keys`).
        case scan(NamingScan, delete: Statement)
        /// Runs these statements in the erasure's last transaction. The parameters are `organization` and `users`.
        case last([Statement])
        /// A step of the erasure itself processes the table.
        case step
    }

    /// The effect of a merge of a user into another user.
    package enum Merge: Sendable {
        /// Moves the rows to the other user.
        case rename(Moving = Moving())
        /// Runs this statement instead of moving the rows. The parameters are `organization`, `user`, the other user
        /// (`into`), and the values of the list.
        case update(Statement, [MergeValue], Moving = Moving())
        /// If the other user has no row and the condition on `x` holds, the other user gets the merged user's row `x`.
        /// A row of the other user remains unchanged.
        case adopt(where: String = "true")
        /// Changes nothing. The rows still name the user, because the join into the other user is recorded.
        case keep
        /// A step of the merge itself processes the table.
        case step
    }

    /// Conditions on the rows that a merge moves.
    package struct Moving: Sendable {
        /// Whether the rows count towards the limit of rows in a merge.
        package let isCounted: Bool
        /// The conflict that is reported if rows of both users have the same key; nil if that is impossible.
        package let collision: Collision?

        package init(isCounted: Bool = true, collision: Collision? = Collision("a row")) {
            self.isCounted = isCounted
            self.collision = collision
        }

        /// For rows that depend on mutations or devices. The limit and the collisions are already checked for the
        /// mutations and devices themselves.
        package static let dependent = Moving(isCounted: false, collision: nil)
    }

    package struct Collision: Sendable {
        package let what: String
        package let rule: String

        package init(_ what: String, rule: String = "join_ids_collide") {
            self.what = what
            self.rule = rule
        }
    }

    /// A value that a merge binds to a statement.
    package enum MergeValue: Sendable {
        /// The number that a merge adds to the position of each moved mutation.
        case positions
        /// The number that a merge adds to the change position of each moved row.
        case changes
        case now
    }
}

// MARK: - Export

extension StoredTable {
    /// The lines for a table in an export of a user.
    package enum Export: Sendable {
        /// A line for each row of the owner.
        case rows(Lines)
        /// A line for each row that the erasure's scan finds.
        ///
        /// The statement returns each row as JSON (`row`). The parameters are those of ``Erase/scan(_:delete:)``.
        case scan(kind: String, Statement, columns: [ExportedColumn])
        /// A step of the export itself processes the table.
        case step(columns: [ExportedColumn])

        /// The maximum number of columns by which lines are ordered. `UserExport` reads their values under the names
        /// `key_1` to `key_3`.
        package static let maximumOrder = 3

        /// - Parameters:
        ///   - kind: the `kind` of the lines.
        ///   - order: one to ``maximumOrder`` columns that order and distinguish the user's rows, with their types.
        ///   - page: the number of rows in a page; fewer if the rows are large.
        package static func lines(
            _ kind: String,
            by order: [(name: String, type: String)],
            page: Int64 = 500,
            form: Form = .columns,
            _ columns: [ExportedColumn]
        ) -> Self {
            precondition(
                (1...maximumOrder).contains(order.count),
                "the export '\(kind)' needs 1 to \(maximumOrder) columns of its order, because `UserExport` reads as many"
            )
            return .rows(Lines(kind: kind, order: order, page: page, form: form, columns: columns))
        }

        package var columns: [ExportedColumn] {
            switch self {
            case .rows(let lines): lines.columns
            case .scan(_, _, let columns), .step(let columns): columns
            }
        }
    }

    /// The content of a line in addition to ``Lines/columns``.
    package enum Form: Sendable {
        /// The decrypted values of the table's sealed columns.
        case columns
        /// The members of the API's details of a mutation.
        case mutation
    }

    package struct Lines: Sendable {
        package let kind: String
        package let order: [(name: String, type: String)]
        package let page: Int64
        package let form: Form
        package let columns: [ExportedColumn]
    }
}

/// A column as an export shows it, in the form of the API.
///
/// Times are in UTC with milliseconds. Ids are JSON numbers or strings, as the server returned them.
package struct ExportedColumn: Sendable, ExpressibleByStringLiteral {
    package let name: String
    /// The API's name.
    package let member: String
    /// SQL of the value in a row `x`.
    package let value: String

    package init(_ name: String, as member: String? = nil, _ value: String) {
        self.name = name
        self.member = member ?? name
        self.value = value
    }

    /// A column in the form of the API: a time if its name ends in `_at`.
    package init(stringLiteral name: String) {
        self.init(name, Self.form(of: name, in: "x"))
    }

    package init(_ name: String, as member: String) {
        self.init(name, as: member, Self.form(of: name, in: "x"))
    }

    /// SQL for a column of a row in the form of the API: a time if its name ends in `_at`.
    static func form(of name: String, in row: String) -> String {
        name.hasSuffix("_at") ? time("\(row).\(name)") : "\(row).\(name)"
    }

    package static func time(named name: String) -> Self { Self(name, time("x.\(name)")) }
    package static func id(named name: String) -> Self { Self(name, id("x.\(name)", "x.server_id_is_integer")) }

    package static func time(_ value: String) -> String {
        "to_char(\(value) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
    }

    package static func id(_ value: String, _ isInteger: String) -> String {
        "CASE WHEN \(isInteger) THEN to_json((\(value))::numeric) ELSE to_json(\(value)) END"
    }
}

// MARK: - Sealing

extension StoredTable {
    /// The way in which a table's sealed values are sealed again.
    package enum Sealing: Sendable {
        /// The rows are sealed under the lock of the owner's lane. The last column of the key, a UUID, identifies a
        /// row.
        case lane([SealedColumn])
        /// All rows of an organization are sealed in one transaction, because there are few.
        case settings([SealedSetting])
        /// A step of the sealing run seals the documents. Documents may be sealed with their owners' keys.
        case documents(DocumentTable)

        package var columns: [String] {
            switch self {
            case .lane(let columns): columns.map { "\($0.name)" }
            case .settings(let columns): columns.map { "\($0.name)" }
            case .documents: ["document"]
            }
        }
    }

    package enum DocumentTable: Sendable {
        case entities
        case parkedEvents
    }
}

// MARK: - Age

extension StoredTable {
    /// The process that deletes rows by their age.
    package enum Aging: Sendable {
        /// Retention deletes the rows by the age in a column, under the lock of the owner's lane. The kind determines
        /// the storage period and the counter. The key consists of the owner and a UUID.
        case deleted(by: String, as: RetentionKind)
        /// Steps of retention delete rows of these kinds.
        case steps([RetentionKind])
        /// The engine prunes rows of ingested events.
        case pruned
    }
}
