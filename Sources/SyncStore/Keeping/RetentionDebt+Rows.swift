import Foundation
import Postgres
import SyncModel

extension RetentionDebt {
    /// Reads a debt from ``RetentionStatements/debts``.
    init(_ rows: Rows, _ row: Int, _ cutoffs: RetentionCutoffs) throws {
        organization = try rows.uuid(row, 0)
        var places: [RetentionKind: RetentionPlace] = [:]
        if let moment = try rows.optionalTimestamp(row, 1), let user = try rows.optionalUUID(row, 2),
            let id = try rows.optionalUUID(row, 3)
        {
            places[.payloads] = .aged(Timestamp(microseconds: moment), user: user, id: id)
        }
        if let user = try rows.optionalUUID(row, 4), let client = try rows.optionalUUID(row, 5) {
            places[.mappings] = .mapping(user: user, client: client)
        }
        self.places = places
        let columns: [(RetentionKind, Int)] = [
            (.payloads, 7), (.records, 8), (.unsettled, 9), (.rejections, 10), (.tombstones, 11),
        ]
        var overdue: [RetentionKind: Double] = [:]
        for (kind, column) in columns {
            guard let at = try rows.optionalTimestamp(row, column) else { continue }
            let late = kind.cutoff(cutoffs).microseconds - at
            if late > 0 { overdue[kind] = Double(late) / 1_000_000 }
        }
        // mappings are looked through once a day; where that stopped half-way it goes on
        if let at = try rows.optionalTimestamp(row, 12) {
            // what lies ahead is a device's word, and says nothing
            let age =
                at > cutoffs.now.microseconds
                ? MappingKeeping.interval : Double(cutoffs.now.microseconds - at) / 1_000_000
            let late = age - MappingKeeping.interval
            if late >= 0 || places[.mappings] != nil { overdue[.mappings] = max(0, late) }
        }
        self.overdue = overdue
    }
}
