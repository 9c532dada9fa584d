package import FoundationEssentials
package import Postgres
package import SyncModel

/// A table whose sealed rows belong to lanes.
package struct SealedTable: Sendable {
    package let columns: [SealedColumn]
    package let page: Statement
    package let read: Statement
    /// Writes a row. Neither an index nor a change position is changed, because readers need not see the change.
    package let write: Statement

    package var statements: [Statement] { [page, read, write] }

    /// Returns nil for a table whose rows are not sealed or do not belong to lanes.
    package init?(_ table: StoredTable) {
        guard case .lane(let columns) = table.sealing, let owner = table.users?.owner, let id = table.key.last else {
            return nil
        }
        self.columns = columns
        let name = table.name
        let beginnings = columns.map { $0.isText ? "text_beginning" : "json_beginning" }
        let isDue = zip(columns, beginnings).map { SealStatements.isOther("r.\($0.name)", ":\($1)") }
        page = Statement(
            "seal_\(name)",
            ["organization", "user", "first", "limit"]
                + ["json_beginning", "text_beginning"].filter(beginnings.contains),
            """
            SELECT r.\(id) AS id, \(isDue.joined(separator: " OR ")) AS is_due
            FROM \(name) r
            WHERE r.organization_id = :organization AND r.\(owner) = :user AND r.\(id) >= :first
            ORDER BY r.\(id)
            LIMIT :limit
            """
        )
        read = Statement(
            "seal_read_\(name)",
            ["organization", "user", "ids"],
            """
            SELECT r.\(id) AS id, \(columns.map { "r.\($0.name)" }.joined(separator: ", "))
            FROM unnest(:ids::uuid[]) AS k (id)
            CROSS JOIN LATERAL (
                SELECT * FROM \(name) x
                WHERE x.organization_id = :organization AND x.\(owner) = :user AND x.\(id) = k.id
                OFFSET 0
            ) r
            """
        )
        let values = columns.map { "\($0.name) = :\($0.name)" }
        write = Statement(
            "seal_write_\(name)",
            ["organization", "user", "id"] + columns.map { "\($0.name)" },
            """
            UPDATE \(name) SET \(values.joined(separator: ", "))
            WHERE organization_id = :organization AND \(owner) = :user AND \(id) = :id
            """
        )
    }
}

/// The seals of the organizations of a group or a reader.
package struct SealTable: Sendable {
    private let seals: [UUID: Seal]
    /// Whether all values are stored unsealed.
    package let arePlain: Bool

    package init(_ seals: [UUID: Seal]) {
        self.seals = seals
        arePlain = seals.values.allSatisfy(\.isPlain)
    }

    /// The seal of an organization.
    ///
    /// If an organization's keys were not read, its seal is locked, so that its values cannot be written unsealed by
    /// mistake.
    package subscript(organization: UUID) -> Seal {
        seals[organization] ?? .locked("the organization's keys were not read")
    }

    package func lane(_ lane: LaneKey) -> LaneSeal { LaneSeal(seal: self[lane.organization], user: lane.user) }

    /// The reason why an organization cannot be read or written; nil if all organizations can be.
    package var lock: String? { seals.values.lazy.compactMap(\.lock).first }
}

extension Catalog {
    /// Reads values that may be sealed.
    ///
    /// If users' keys are not in memory, they are fetched and `body` runs again. If a value is sealed under a key that
    /// another replica has just created, the organization's keys are read again once. Values that still cannot be
    /// decrypted are treated as unreadable.
    ///
    /// - Throws: the errors of `body`; `store_unavailable` while the organization's data are locked.
    package func opening<Value>(
        _ organization: UUID,
        _ body: (Seal) async throws -> Value
    ) async throws -> Value {
        do {
            return try await userKeys.fetchingMissingKeys { try await body(seal(of: organization)) }
        } catch SealError.unknownKey {
            invalidate(organization)
            return try await userKeys.fetchingMissingKeys { try await body(seal(of: organization).withoutKeyRefresh) }
        }
    }

    /// The seal of an organization, at most five seconds old.
    ///
    /// - Throws: ``SealError/locked(_:)``; `store_unavailable`.
    package func seal(of organization: UUID) async throws -> Seal {
        let seal = try await entry(organization).seal
        if let reason = seal.lock { throw SealError.locked(reason) }
        return seal
    }
}

/// A kind of rows with sealed values.
///
/// The kind defines how to find, read and write the rows that have to be sealed again.
package protocol SealedKind: Sendable {
    associatedtype Key: Sendable

    /// Reads a page of keys from a place on. Each key has a flag for whether its row must be sealed again.
    ///
    /// The parameters are the place, the limit, and the parameters of ``add(_:_:to:)``.
    var page: Statement { get }
    /// Adds the beginnings by which correctly sealed values are recognized.
    ///
    /// Such values are sealed under the data key with this number. If the organization has users' own keys, the values
    /// are also sealed with these keys.
    func add(_ number: Int32, _ seal: Seal, to parameters: inout Parameters)
    /// The key at which the first page begins.
    var first: Key { get }
    func place(_ key: Key) -> Parameters
    func key(_ row: inout RowReader) throws -> Key
    /// Returns the key at which the page after this key begins; nil after the last page.
    func next(after key: Key) -> Key?

    /// Returns queries that lock and read rows. The last query returns the rows.
    func read(_ keys: [Key]) -> [Query]
    /// Returns the query that reads rows without locks.
    func find(_ keys: [Key]) -> Query
    /// Returns the query that writes a row with its values sealed again; nil if the row need not be written.
    func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query?
}

/// A kind of documents.
///
/// If only the owners see entities of a type, its documents are sealed with the owners' keys.
package protocol SealedDocuments: SealedKind {}

extension SealedDocuments {
    package func add(_ number: Int32, _ seal: Seal, to parameters: inout Parameters) {
        parameters.add(SealedText.beginning(number: number, isJSON: true))
        parameters.add(seal.privateTypes.map(\.string).sorted())
        parameters.add(SealedText.beginning(number: number, isJSON: true).dropLast() + ".")
    }
}
