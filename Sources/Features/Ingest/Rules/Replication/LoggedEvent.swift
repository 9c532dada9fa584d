package import SyncModel

/// An event with the change of the log that it was made of.
package struct LoggedEvent: Sendable {
    package private(set) var entry: IngestRequest.Entry
    /// The followed table.
    package let table: QualifiedName?
    /// The effect of the change on the row with the entity's id; nil if the log does not contain complete old rows.
    let step: RowStep?
    /// Whether a column of the table has the entity's version.
    let hasVersions: Bool

    init(_ entry: IngestRequest.Entry, table: QualifiedName?, step: RowStep? = nil, hasVersions: Bool = false) {
        self.entry = entry
        self.table = table
        self.step = step
        self.hasVersions = hasVersions
    }

    /// Sets how the event's version relates to those before it.
    mutating func setLineage(_ lineage: IngestEvent.Lineage) {
        guard hasVersions, case .success(var event) = entry.event, event.operation != .delete else { return }
        event.lineage = lineage
        entry = IngestRequest.Entry(eventID: entry.eventID, event: .success(event))
    }

    /// Whether a ``TransactionFold`` follows the event's row.
    package var isFollowedByRow: Bool { step != nil }

    /// Whether it is of a row that was inserted, or got another id, in a table with versions.
    package var startsVersions: Bool {
        if case .success(let event) = entry.event { event.lineage != .continues } else { false }
    }

    /// Bytes of the document; zero without one.
    package var documentBytes: Int {
        if case .success(let event) = entry.event { event.document?.count ?? 0 } else { 0 }
    }
}

/// The effect of a change on the row with an id. A hash of all columns distinguishes rows.
enum RowStep: Sendable, Hashable {
    /// A row gets the id: it was inserted, or had another id before.
    case arrival(UInt64)
    /// The row with the id has other values.
    case change(from: UInt64, to: UInt64)
    /// The row with the id was deleted, or has another id now.
    case departure(UInt64)
}
