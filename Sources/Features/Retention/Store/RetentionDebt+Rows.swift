import Foundation
import Postgres
import SyncModel
import SyncStore

extension RetentionDebt {
    /// Reads a debt from ``RetentionStatements/debts``.
    init(_ row: inout RowReader, _ cutoffs: RetentionCutoffs) throws {
        organization = try row.uuid("id")
        var places: [RetentionKind: RetentionPlace] = [:]
        let shrunk = (
            until: try row.optionalMoment("shrunk_until"), user: try row.optionalUUID("shrunk_user"),
            id: try row.optionalUUID("shrunk_id")
        )
        if let until = shrunk.until, let user = shrunk.user, let id = shrunk.id {
            places[.payloads] = .aged(until, user: user, id: id)
        }
        let mapping = (user: try row.optionalUUID("mapping_user"), client: try row.optionalUUID("mapping_client"))
        if let user = mapping.user, let client = mapping.client {
            places[.mappings] = .mapping(user: user, client: client)
        }
        self.places = places
        let oldest: [(RetentionKind, Int64?)] = [
            (.payloads, try row.optionalTimestamp("payload")), (.records, try row.optionalTimestamp("record")),
            (.unsettled, try row.optionalTimestamp("trouble")),
            (.rejections, try row.optionalTimestamp("rejection")),
            (.tombstones, try row.optionalTimestamp("tombstone")),
        ]
        var overdue: [RetentionKind: Double] = [:]
        for case (let kind, let at?) in oldest {
            let late = kind.cutoff(cutoffs).microseconds - at
            if late > 0 { overdue[kind] = Double(late) / 1_000_000 }
        }
        // delivered messages are deleted with payloads, the others with the records
        let delivered = try row.optionalTimestamp("delivered").map { cutoffs.payloads.microseconds - $0 }
        let undelivered = try row.optionalTimestamp("undelivered").map { cutoffs.everything.microseconds - $0 }
        let late = [delivered, undelivered].compactMap(\.self).max() ?? 0
        if late > 0 { overdue[.deliveries] = Double(late) / 1_000_000 }
        // mappings are scanned once a day; an interrupted scan continues
        if let at = try row.optionalTimestamp("mapping") {
            // a time in the future comes from a device's clock, and has no meaning
            let age =
                at > cutoffs.now.microseconds
                ? MappingRetention.interval : Double(cutoffs.now.microseconds - at) / 1_000_000
            let late = age - MappingRetention.interval
            if late >= 0 || places[.mappings] != nil { overdue[.mappings] = max(0, late) }
        }
        self.overdue = overdue
    }
}
