package import FoundationEssentials
package import Postgres
package import SyncModel

/// The result of sealing an organization's rows.
package struct SealedRows: Sendable, Hashable {
    package var examined = 0

    package init() {}

    /// The number of rows that were written again.
    package var sealed = 0
    /// The number of values that cannot be decrypted. These values are left unchanged.
    package var unreadable = 0
    /// Messages for an operator about the first unreadable values. A message names the row, without contents.
    package var unreadableValues: [String] = []
    /// The maximum number of unreadable values that are named.
    package static let namedValues = 20
    /// The number of older data keys that were deleted, because no value is sealed under them any longer.
    package var droppedKeys = 0
    /// The number of older data keys that are kept, because values that cannot be decrypted may be sealed under them.
    package var keptKeys = 0
    /// The data keys of values that were left unchanged.
    package private(set) var neededKeys: Set<Int32> = []
    /// Whether a value that was left unchanged does not name its key.
    package private(set) var mayNeedAnyKey = false

    /// Records values that cannot be decrypted, and the reasons.
    package mutating func leave(_ closed: [Renewal.Closed]) {
        unreadable += closed.count
        for value in closed {
            if unreadableValues.count < Self.namedValues {
                unreadableValues.append("\(value.place.name) in \(value.place.row): \(value.error)")
            }
            switch value.cover {
            case .plain: break
            case .keys(let number, _): neededKeys.insert(number)
            case .unknown: mayNeedAnyKey = true
            }
        }
    }
}

/// A lane's rows of a table, read under the lane's lock.
package struct SealedLaneRows: SealedKind {
    /// The number of rows that one statement checks.
    package static let scan: Int64 = 500

    package let table: SealedTable
    package let lane: LaneKey

    package init(table: SealedTable, lane: LaneKey) {
        self.table = table
        self.lane = lane
    }

    package var page: Statement { table.page }
    // clients choose ids, and the least UUID is a valid id; therefore the first page includes it
    package var first: UUID { .least }

    package func place(_ id: UUID) -> Parameters {
        let parameters = Parameters(of: lane, id)
        return parameters
    }

    package func add(_ number: Int32, _ seal: Seal, to parameters: inout Parameters) {
        let user = seal.usesUserKeys ? lane.user : nil
        for isJSON in [true, false] where table.columns.contains(where: { $0.isText != isJSON }) {
            parameters.add(SealedText.beginning(number: number, user: user, isJSON: isJSON))
        }
    }

    package func key(_ row: inout RowReader) throws -> UUID { try row.read("id") }
    package func next(after id: UUID) -> UUID? { id.successor }

    package func read(_ ids: [UUID]) -> [Query] { [LaneRows.lock([lane]), find(ids)] }
    package func find(_ ids: [UUID]) -> Query {
        table.read(organization: lane.organization, user: lane.user, ids: ids)
    }

    package func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        let id: UUID = try row.read("id")
        var parameters = place(id)
        for column in table.columns {
            let place = column.place(lane.user, id)
            if column.isText {
                parameters.add(try renewal.text(row.read(column.name, as: String?.self), as: place))
            } else {
                parameters.add(PostgresJSON(try renewal.json(row.read(column.name, as: [UInt8]?.self), as: place)))
            }
        }
        return Query(table.write, parameters)
    }
}

/// Seals and opens the columns of one lane's mutations and rejections.
package struct LaneSeal: Sendable {
    package let seal: Seal
    package let user: UUID

    package init(seal: Seal, user: UUID) {
        self.seal = seal
        self.user = user
    }

    package func seal(json plain: [UInt8]?, _ column: SealedPlace.Column, of id: UUID) throws(SealError) -> [UInt8]? {
        try seal.seal(json: plain, as: .mutation(column, user: user, id: id))
    }

    package func seal(text plain: String?, _ column: SealedPlace.Column, of id: UUID) throws(SealError) -> String? {
        try seal.seal(text: plain, as: .mutation(column, user: user, id: id))
    }

    /// Reads a value; nil if there is no value or the value cannot be decrypted.
    ///
    /// If the value cannot be decrypted, the name of its member is added to `unreadable`.
    package func read(
        json stored: [UInt8]?,
        _ column: SealedPlace.Column,
        of id: UUID,
        _ unreadable: inout [String]
    ) throws(SealError) -> [UInt8]? {
        try seal.read(json: stored, as: .mutation(column, user: user, id: id), &unreadable)
    }

    /// Reads a value; nil if there is no value or the value cannot be decrypted.
    ///
    /// If the value cannot be decrypted, the name of its member is added to `unreadable`.
    package func read(
        text stored: String?,
        _ column: SealedPlace.Column,
        of id: UUID,
        _ unreadable: inout [String]
    ) throws(SealError) -> String? {
        try seal.read(text: stored, as: .mutation(column, user: user, id: id), &unreadable)
    }
}

extension Rows {
    /// Reads every row. If users' keys are not in memory, throws one error that lists all of them.
    package func readSealed<Value>(_ body: (inout RowReader) throws -> Value) throws -> [Value] {
        var lacking = LackingKeys()
        let values = try read { row in try lacking.collect { try body(&row) } }
        try lacking.check()
        return values.compactMap(\.self)
    }
}
