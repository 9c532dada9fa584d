package import FoundationEssentials
import Postgres
import SyncModel
import SyncStore

/// An organization's rows that retention has to delete.
package struct OverdueRows: Sendable {
    package let organization: UUID
    /// The starting positions of tasks that store their position. All other tasks begin at their oldest row.
    package let places: [RetentionTask: RetentionPosition]
    /// The seconds for which the oldest row of each task has been overdue; tasks without overdue rows are omitted.
    package let overdue: [RetentionTask: Double]
}

extension OverdueRows {
    /// Reads a row of ``RetentionStatements/debts(_:)``.
    init(_ row: inout RowReader, _ tables: [AgedTable], _ cutoffs: RetentionCutoffs) throws {
        organization = try row.read("id")
        var places: [RetentionTask: RetentionPosition] = [:]
        let shrunk: (until: Timestamp?, user: UUID?, id: UUID?) = (
            try row.read("shrunk_until"), try row.read("shrunk_user"), try row.read("shrunk_id")
        )
        if let until = shrunk.until, let user = shrunk.user, let id = shrunk.id {
            places[RetentionTask(.payloads)] = .aged(until, user: user, id: id)
        }
        let mapping: (user: UUID?, client: UUID?) = (try row.read("mapping_user"), try row.read("mapping_client"))
        if let user = mapping.user, let client = mapping.client {
            places[RetentionTask(.mappings)] = .mapping(user: user, client: client)
        }
        self.places = places
        var oldest: [(RetentionTask, Timestamp?)] = [
            (RetentionTask(.payloads), try row.read("payload")),
            (RetentionTask(.records), try row.read("record")),
            (RetentionTask(.unsettled), try row.read("trouble")),
            (RetentionTask(.tombstones), try row.read("tombstone")),
        ]
        let messages: (delivered: Timestamp?, undelivered: Timestamp?) = (
            try row.read("delivered"), try row.read("undelivered")
        )
        let mappingAt: Timestamp? = try row.read("mapping")
        let notedAt: Timestamp? = try row.read("feed_noted_at")
        let hasEnds: Bool = try row.read("has_ends")
        for (table, age) in zip(tables, try row.read("aged", as: [Int64].self)) where age != .max {
            oldest.append((RetentionTask(table.kind, of: table.name), Timestamp(microseconds: age)))
        }
        var overdue: [RetentionTask: Double] = [:]
        for case (let task, let at?) in oldest {
            let late = task.kind.cutoff(cutoffs).microseconds - at.microseconds
            if late > 0 { overdue[task] = Double(late) / 1_000_000 }
        }
        // delivered messages have the storage period of payloads, and all other messages have the storage period of
        // records
        let delivered = messages.delivered.map { cutoffs.payloads.microseconds - $0.microseconds }
        let undelivered = messages.undelivered.map { cutoffs.everything.microseconds - $0.microseconds }
        let late = [delivered, undelivered].compactMap(\.self).max() ?? 0
        if late > 0 { overdue[RetentionTask(.deliveries)] = Double(late) / 1_000_000 }
        // mappings are scanned once a day; an interrupted scan is continued
        if let at = mappingAt {
            // a time in the future comes from a device's clock, and is ignored
            let age =
                at > cutoffs.now
                ? MappingRetention.interval : Double(cutoffs.now.microseconds - at.microseconds) / 1_000_000
            let late = age - MappingRetention.interval
            if late >= 0 || places[RetentionTask(.mappings)] != nil { overdue[RetentionTask(.mappings)] = max(0, late) }
        }
        // ends of stays and grants are processed once a day
        let lateNote = notedAt.map {
            Double(cutoffs.now.microseconds - $0.microseconds) / 1_000_000 - ChannelRetention.interval
        }
        if hasEnds, lateNote ?? 0 >= 0 { overdue[RetentionTask(.channels)] = lateNote ?? 0 }
        self.overdue = overdue
    }
}
