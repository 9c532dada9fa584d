package import SyncModel

/// Converts a database's log to events, message by message.
///
/// Pure: a part of the log always results in the same events with the same event ids, however often the log is read,
/// and at any position where reading begins.
package struct LogReader: Sendable {
    private let tables: [QualifiedName: FollowedTable]
    private let limits: IntakeLimits
    /// The number that is added to a log position to form a version.
    private let base: Int64
    private var readers: [UInt32: TableReader] = [:]
    private var names: [UInt32: QualifiedName] = [:]
    private var committedAt = Timestamp(microseconds: 0)
    private var freshKeys: Set<ByteExactString> = []
    /// The position of the last change, and the number of events at this position. The rows of one COPY share a
    /// position.
    private var last: (position: UInt64, count: Int) = (.max, 0)
    private var ignored = 0

    package init(_ settings: ReplicationSettings, base: Int64, limits: IntakeLimits) {
        tables = Dictionary(settings.tables.map { ($0.name, $0) }) { first, _ in first }
        self.base = base
        self.limits = limits
    }

    /// Begins a transaction. Its changes follow.
    package mutating func begin(at committedAt: Timestamp) {
        self.committedAt = committedAt
        freshKeys.removeAll(keepingCapacity: true)
        last = (.max, 0)
    }

    /// Whether a table is followed. A table that was renamed stays followed.
    package func isFollowed(_ id: UInt32, _ name: QualifiedName) -> Bool { followed(id, name) != nil }

    private func followed(_ id: UInt32, _ name: QualifiedName) -> QualifiedName? {
        tables[name] == nil ? names[id] : name
    }

    /// Records a table's present columns.
    ///
    /// A renamed table is still followed, until another table gets its former name.
    ///
    /// - Throws: a defect of the table. No changes may be read before the defect is corrected.
    package mutating func relation(
        _ id: UInt32,
        _ name: QualifiedName,
        _ columns: @autoclosure () -> [FollowedColumn]
    ) throws(SourceFailure) {
        readers[id] = nil
        guard let name = followed(id, name), let table = tables[name] else { return }
        for (other, same) in names where same == name && other != id { (names[other], readers[other]) = (nil, nil) }
        names[id] = name
        readers[id] = try TableReader(table, columns())
    }

    /// Returns the events of an updated or deleted row.
    ///
    /// - Parameter new: the row's new values; nil if the row was deleted.
    package mutating func change(
        of id: UInt32,
        old: [ColumnValue]?,
        new: [ColumnValue]?,
        at position: UInt64
    ) -> [IngestRequest.Entry] {
        events(of: id, old: old, new: new, at: position).map(\.entry)
    }

    /// Returns the events of an inserted row.
    package mutating func insertion(into id: UInt32, _ new: [ColumnValue], at position: UInt64) -> [LoggedEvent] {
        events(of: id, old: nil, new: new, isInsertion: true, at: position)
    }

    /// Returns the events of an inserted, updated or deleted row.
    ///
    /// - Parameter new: the row's new values; nil if the row was deleted.
    package mutating func events(
        of id: UInt32,
        old: [ColumnValue]?,
        new: [ColumnValue]?,
        isInsertion: Bool = false,
        at position: UInt64
    ) -> [LoggedEvent] {
        guard let reader = readers[id] else {
            ignored += 1
            return []
        }
        if last.position != position { last = (position, 0) }
        let eventIDs = (0..<TableReader.eventLimit).map { eventID(position, last.count + $0) }
        let version = base.addingReportingOverflow(Int64(clamping: position))
        let place = TableReader.Place(
            eventIDs: eventIDs,
            version: version.overflow ? .max : version.partialValue,
            committedAt: committedAt
        )
        let events: [LoggedEvent]
        if let new {
            events = reader.events(
                old: old,
                new: new,
                isInsertion: isInsertion,
                at: place,
                freshKeys: &freshKeys,
                limits
            )
        } else if let old {
            events = [reader.deletion(of: old, at: place, limits)]
        } else {
            events = []
        }
        last.count += events.count
        return events
    }

    /// Returns the number of changes of tables that are not followed, since the last call.
    package mutating func takeIgnored() -> Int {
        defer { ignored = 0 }
        return ignored
    }

    /// Returns a followed table's name; nil for other tables.
    package func name(of id: UInt32) -> QualifiedName? { readers[id] == nil ? nil : names[id] }

    /// Returns the id of an event (`event_id`).
    ///
    /// The id contains the time of the commit, because a server that was reset writes other changes at the same
    /// positions.
    private func eventID(_ position: UInt64, _ count: Int) -> String {
        let halves = [position >> 32, position & 0xffff_ffff].map { String($0, radix: 16, uppercase: true) }
        return "\(halves.joined(separator: "/")):\(count):\(committedAt.microseconds)"
    }
}

// MARK: - LoggedEvent

/// An event, with facts about the log entry from which it was made.
package struct LoggedEvent: Sendable {
    package private(set) var entry: IngestRequest.Entry
    /// The followed table.
    package let table: QualifiedName?
    /// The effect on the rows that have the entity's id; nil if the log does not contain complete old rows.
    let step: RowStep?
    /// Whether a column of the table contains the entity's version.
    let hasVersions: Bool

    init(_ entry: IngestRequest.Entry, table: QualifiedName?, step: RowStep? = nil, hasVersions: Bool = false) {
        self.entry = entry
        self.table = table
        self.step = step
        self.hasVersions = hasVersions
    }

    /// Sets how the event's version relates to the versions of earlier events.
    mutating func setLineage(_ lineage: IngestEvent.Lineage) {
        guard hasVersions, case .success(var event) = entry.event, event.operation != .delete else { return }
        event.lineage = lineage
        entry = IngestRequest.Entry(eventID: entry.eventID, event: .success(event))
    }

    /// Whether a ``TransactionFold`` tracks the event's row.
    package var isFollowedByRow: Bool { step != nil }

    /// Whether the event's row was inserted or got another id. Always false in a table without versions.
    package var startsVersions: Bool {
        if case .success(let event) = entry.event { event.lineage != .continues } else { false }
    }

    /// The number of bytes of the document; zero without a document.
    package var documentBytes: Int {
        if case .success(let event) = entry.event { event.document?.count ?? 0 } else { 0 }
    }
}

/// The effect of a change on the rows that have an id. Rows are distinguished by a hash of all their columns.
enum RowStep: Sendable, Hashable {
    /// A row gets the id. The row was inserted, or had another id before.
    case arrival(UInt64)
    /// The row with the id has new values.
    case change(from: UInt64, to: UInt64)
    /// A row loses the id. The row was deleted, or has another id now.
    case departure(UInt64)
}

// MARK: - TransactionFold

/// Reduces the changes of one transaction to the transaction's final state, for ids that pass from one row to another.
///
/// If a unique constraint is deferrable, a transaction may give an id to a row while another row still has this id. For
/// example, `UPDATE contact SET id = id + 1` first writes "row 1 becomes 2", and then "row 2 becomes 3". The first
/// change updates entity 2, and the second change deletes entity 2, because row 2 loses the id 2. If these events were
/// applied in this order, entity 2 would be lost, although a row has the id 2. A table with such a constraint has
/// REPLICA IDENTITY FULL, so that the log contains each old row as a whole. From the old rows, this type determines
/// which row loses an id.
///
/// Transactions of up to ``eventLimit`` events and ``byteLimit`` bytes are reduced exactly. Larger transactions are
/// processed in parts. If one row loses an id in one part, and another row gets the id in another part, rows with equal
/// values in all columns may be confused.
package struct TransactionFold: Sendable {
    /// The maximum number of events that are held until their transaction ends.
    package static let eventLimit = 20_000
    /// The maximum number of document bytes that are held until their transaction ends.
    package static let byteLimit = 8 << 20
    /// The maximum number of ids in a transaction for which the rows are tracked. Events of other ids keep the order of
    /// the log.
    static let placeLimit = 250_000

    private struct Key: Hashable {
        let table: QualifiedName?
        let entity: EntityKey
    }

    fileprivate struct Row {
        var hash: UInt64
        /// The index of the held event with the row's newest content; nil if this event was already returned.
        var event: Int?
        /// Whether the row had the id before the transaction.
        let isOriginal: Bool
    }

    /// The rows that had the same id at some time in the transaction.
    fileprivate struct Place {
        var rows: [Row] = []
        /// Whether a row had the id before the transaction; nil if the log does not show it.
        var hadRow: Bool?
        var hasOriginalLeft = false
        var hasArrival = false
        /// The indices of the held events.
        var events: [Int] = []
    }

    private var places: [Key: Place] = [:]
    /// The ids that a row lost after another row had got the same id.
    private var questions: Set<Key> = []
    /// The ids with held events.
    private var touched: Set<Key> = []
    private var events: [LoggedEvent] = []
    private var bytes = 0

    package init() {}

    package var isEmpty: Bool { events.isEmpty }

    /// Whether the held events must be returned before the transaction ends.
    package var isFull: Bool { events.count >= Self.eventLimit || bytes >= Self.byteLimit }

    /// Starts a transaction. All events of the previous transaction must have been returned before.
    package mutating func begin() { self = TransactionFold() }

    /// Adds the next event of the transaction.
    package mutating func add(_ event: LoggedEvent) {
        let index = events.count
        events.append(event)
        bytes += 200 + event.documentBytes
        guard let step = event.step, case .success(let content) = event.entry.event else { return }
        let key = Key(table: event.table, entity: content.key)
        guard places[key] != nil || places.count < Self.placeLimit else { return }
        touched.insert(key)
        if places[key, default: Place()].apply(step, index) { questions.insert(key) }
    }

    /// Returns the entities for which the caller must read from the feed whether they existed before the transaction.
    ///
    /// - Parameter isFinal: whether the transaction has ended.
    package func unknown(isFinal: Bool) -> [EntityKey] {
        (isFinal ? questions : touched).compactMap { key in
            guard let place = places[key], place.hadRow == nil, place.hasArrival else { return nil }
            if isFinal, place.hasOriginalLeft || !place.rows.isEmpty { return nil }
            return key.entity
        }
    }

    /// Removes and returns the held events. Events that later changes of the transaction revert are omitted.
    ///
    /// - Parameter living: the entities among ``unknown(isFinal:)`` that exist in the feed.
    package mutating func take(living: Set<EntityKey>) -> [LoggedEvent] {
        var dropped: Set<Int> = []
        for key in questions {
            guard let place = places[key] else { continue }
            var kept: Int?
            if let row = place.rows.max(by: { ($0.event ?? -1) < ($1.event ?? -1) }) {
                kept = row.event
                if let kept, place.hasOriginalLeft { events[kept].setLineage(.restarts) }
            } else if place.hasOriginalLeft || !(place.hadRow ?? living.contains(key.entity)) {
                kept = place.events.last
            }
            dropped.formUnion(place.events.filter { $0 != kept })
        }
        for key in touched {
            guard var place = places[key] else { continue }
            if place.hadRow == nil, place.hasArrival { place.hadRow = living.contains(key.entity) }
            place.events = []
            for index in place.rows.indices { place.rows[index].event = nil }
            places[key] = place
        }
        let taken = events
        (events, bytes) = ([], 0)
        questions.removeAll(keepingCapacity: true)
        touched.removeAll(keepingCapacity: true)
        guard !dropped.isEmpty else { return taken }
        return taken.indices.filter { !dropped.contains($0) }.map { taken[$0] }
    }
}

extension TransactionFold.Place {
    /// Records a change.
    ///
    /// - Returns: whether a row lost the id after another row had got it.
    fileprivate mutating func apply(_ step: RowStep, _ event: Int) -> Bool {
        events.append(event)
        switch step {
        case .arrival(let hash):
            hasArrival = true
            rows.append(TransactionFold.Row(hash: hash, event: event, isOriginal: false))
            return false
        case .change(let old, let new):
            if let index = rows.lastIndex(where: { $0.hash == old }) {
                (rows[index].hash, rows[index].event) = (new, event)
            } else {
                hadRow = true
                rows.append(TransactionFold.Row(hash: new, event: event, isOriginal: true))
            }
            return false
        case .departure(let hash):
            if let index = rows.lastIndex(where: { $0.hash == hash }) {
                if rows.remove(at: index).isOriginal { hasOriginalLeft = true }
            } else {
                (hadRow, hasOriginalLeft) = (true, true)
            }
            return hasArrival
        }
    }
}
