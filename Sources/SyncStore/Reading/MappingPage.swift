import Foundation
import Postgres
package import SyncModel

/// A page of a user's id mappings.
package struct MappingPage: Sendable {
    /// A row of ``MappingReader/listStatement``.
    private struct Row {
        let epoch: Int64
        let head: Int64
        /// Where the scan was cut off, if it was.
        let seen: LanePlace?
        let mapping: (change: Int64, mapping: IDMapping)?

        init(_ row: inout RowReader) throws {
            epoch = try row.int64("epoch")
            head = try row.int64("head")
            let seen = try row.optionalInt64("seen_to")
            let (clientID, type) = (try row.optionalUUID("seen_client_id"), try row.optionalString("seen_type"))
            if let seen, let clientID, let type {
                self.seen = LanePlace(change: seen, last: .mapping(clientID: clientID, entityType: type))
            } else {
                self.seen = nil
            }
            mapping = try row.optionalInt64("change_position").map { ($0, try MappingReader.mapping(&row)) }
        }
    }

    package let mappings: [IDMapping]
    package let next: MappingCursor
    /// Whether this is the end of the list at this moment.
    package let isUpToDate: Bool

    /// - Parameter user: the mappings' user.
    init(
        _ rows: Rows,
        of user: UUID,
        limit: Int,
        cursor: MappingCursor?,
        filter: UInt64,
        statuses: [IDMapping.Status]
    ) throws {
        guard rows.count > 0 else { throw Problem(.organizationUnknown, "the organization has no feed") }
        let found = try rows.read(Row.init)
        let (epoch, head) = (LaneEpoch.mixed(found[0].epoch, user), found[0].head)
        if let cursor {
            // a cursor of an earlier version does not name its user
            let isOfNow = [epoch, found[0].epoch].contains(cursor.epoch)
            guard isOfNow, cursor.place.change <= head else { throw Self.expired(statuses) }
        }
        let changed = found.compactMap(\.mapping)
        mappings = changed.prefix(limit).map(\.mapping)
        // the end of the scan: the last mapping shown if the page is full, else the last one read, else the end
        let place: LanePlace
        if changed.count > limit {
            let (change, last) = changed[limit - 1]
            place = LanePlace(change: change, last: .mapping(clientID: last.clientID, entityType: last.entityType))
        } else {
            place = found[0].seen ?? LanePlace(change: head)
        }
        next = MappingCursor(epoch: epoch, filter: filter, place: place)
        isUpToDate = place.last == nil
    }

    private static func expired(_ statuses: [IDMapping.Status]) -> Problem {
        var problem = Problem(.cursorExpired, "this cursor was issued before a restore; start over from snapshot")
        let query = statuses.isEmpty ? "" : "?status=" + statuses.map(\.rawValue).joined(separator: ",")
        problem.snapshot = "/v1/id-mappings" + query
        return problem
    }
}
