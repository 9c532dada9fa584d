package import Foundation
import Postgres
import SyncModel
import SyncStore

/// An organization's rows that retention has to delete.
package struct OverdueRows: Sendable {
    package let organization: UUID
    /// Where to begin, for tasks that remember their place; the others begin at their oldest row.
    package let places: [RetentionTask: RetentionPosition]
    /// How long the oldest row of each task has been overdue, in seconds; tasks without overdue rows are left out.
    package let overdue: [RetentionTask: Double]
}

extension OverdueRows {
    /// Reads a debt from ``RetentionStatements/debts(_:)``.
    init(_ row: inout RowReader, _ tables: [AgedTable], _ cutoffs: RetentionCutoffs) throws {
        organization = try row.uuid("id")
        var places: [RetentionTask: RetentionPosition] = [:]
        let shrunk = (
            until: try row.optionalMoment("shrunk_until"), user: try row.optionalUUID("shrunk_user"),
            id: try row.optionalUUID("shrunk_id")
        )
        if let until = shrunk.until, let user = shrunk.user, let id = shrunk.id {
            places[RetentionTask(.payloads)] = .aged(until, user: user, id: id)
        }
        let mapping = (user: try row.optionalUUID("mapping_user"), client: try row.optionalUUID("mapping_client"))
        if let user = mapping.user, let client = mapping.client {
            places[RetentionTask(.mappings)] = .mapping(user: user, client: client)
        }
        self.places = places
        var oldest: [(RetentionTask, Int64?)] = [
            (RetentionTask(.payloads), try row.optionalTimestamp("payload")),
            (RetentionTask(.records), try row.optionalTimestamp("record")),
            (RetentionTask(.unsettled), try row.optionalTimestamp("trouble")),
            (RetentionTask(.tombstones), try row.optionalTimestamp("tombstone")),
        ]
        let messages = (
            delivered: try row.optionalTimestamp("delivered"), undelivered: try row.optionalTimestamp("undelivered")
        )
        let mappingAt = try row.optionalTimestamp("mapping")
        for (table, age) in zip(tables, try row.int64s("aged")) where age != .max {
            oldest.append((RetentionTask(table.kind, of: table.name), age))
        }
        var overdue: [RetentionTask: Double] = [:]
        for case (let task, let at?) in oldest {
            let late = task.kind.cutoff(cutoffs).microseconds - at
            if late > 0 { overdue[task] = Double(late) / 1_000_000 }
        }
        // delivered messages are deleted with payloads, the others with the records
        let delivered = messages.delivered.map { cutoffs.payloads.microseconds - $0 }
        let undelivered = messages.undelivered.map { cutoffs.everything.microseconds - $0 }
        let late = [delivered, undelivered].compactMap(\.self).max() ?? 0
        if late > 0 { overdue[RetentionTask(.deliveries)] = Double(late) / 1_000_000 }
        // mappings are scanned once a day; an interrupted scan continues
        if let at = mappingAt {
            // a time in the future comes from a device's clock, and has no meaning
            let age =
                at > cutoffs.now.microseconds
                ? MappingRetention.interval : Double(cutoffs.now.microseconds - at) / 1_000_000
            let late = age - MappingRetention.interval
            if late >= 0 || places[RetentionTask(.mappings)] != nil { overdue[RetentionTask(.mappings)] = max(0, late) }
        }
        self.overdue = overdue
    }
}
