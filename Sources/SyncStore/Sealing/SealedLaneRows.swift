package import Foundation
package import Postgres
package import SyncModel

/// A lane's rows of a table, under its lock.
package struct SealedLaneRows: SealedKind {
    /// Rows of which one statement finds out whether they are due.
    package static let scan: Int64 = 500

    package let table: SealedTable
    package let lane: LaneKey

    package init(table: SealedTable, lane: LaneKey) {
        self.table = table
        self.lane = lane
    }

    package var page: Statement { table.page }
    // clients choose ids: the least UUID is one, too
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

    package func key(_ row: inout RowReader) throws -> UUID { try row.uuid("id") }
    package func next(after id: UUID) -> UUID? { id.successor }

    package func read(_ ids: [UUID]) -> [Query] { [LaneRows.lock([lane]), find(ids)] }
    package func find(_ ids: [UUID]) -> Query {
        table.read(organization: lane.organization, user: lane.user, ids: ids)
    }

    package func renewed(_ row: inout RowReader, _ renewal: inout Renewal) throws -> Query? {
        let id = try row.uuid("id")
        var parameters = place(id)
        for column in table.columns {
            let place = column.place(lane.user, id)
            if column.isText {
                parameters.add(try renewal.text(row.optionalString(column.name), as: place))
            } else {
                parameters.add(json: try renewal.json(row.optionalBytes(column.name), as: place))
            }
        }
        return Query(table.write, parameters)
    }
}
