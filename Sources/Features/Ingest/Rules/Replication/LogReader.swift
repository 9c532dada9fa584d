package import SyncModel

/// Converts a database's log to events, message by message.
///
/// Pure: the same log results in the same events with the same names, however often it is read, and from any
/// position.
package struct LogReader: Sendable {
    private let tables: [QualifiedName: FollowedTable]
    private let limits: IntakeLimits
    /// The number that is added to log positions to form versions.
    private let base: Int64
    private var readers: [UInt32: TableReader] = [:]
    private var names: [UInt32: QualifiedName] = [:]
    private var committedAt = Timestamp(microseconds: 0)
    private var freshKeys: Set<ByteExactString> = []
    /// The position of the last change, and the number of events at this position: rows of one COPY share a position.
    private var last: (position: UInt64, count: Int) = (.max, 0)
    private var ignored = 0

    package init(_ settings: ReplicationSettings, base: Int64, limits: IntakeLimits) {
        tables = Dictionary(settings.tables.map { ($0.name, $0) }) { first, _ in first }
        self.base = base
        self.limits = limits
    }

    /// Begins a transaction, whose changes follow.
    package mutating func begin(at committedAt: Timestamp) {
        self.committedAt = committedAt
        freshKeys.removeAll(keepingCapacity: true)
        last = (.max, 0)
    }

    /// Whether the settings name a table, or named it before the table was renamed.
    package func isFollowed(_ id: UInt32, _ name: QualifiedName) -> Bool { followed(id, name) != nil }

    private func followed(_ id: UInt32, _ name: QualifiedName) -> QualifiedName? {
        tables[name] == nil ? names[id] : name
    }

    /// Records a table's present columns. A renamed table counts as the same table until another table has its name.
    ///
    /// - Throws: the table's defect. Nothing must be read before the defect is corrected.
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

    /// Returns the events of an updated row, or, if `new` is nil, of a deleted row.
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

    /// Returns the events of an inserted or updated row, or, if `new` is nil, of a deleted row.
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
        let names = (0..<TableReader.eventLimit).map { name(position, last.count + $0) }
        let version = base.addingReportingOverflow(Int64(clamping: position))
        let place = TableReader.Place(
            names: names,
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

    /// Returns an event's name. It contains the time of the commit, because a server that was reset writes other
    /// changes at the same positions.
    private func name(_ position: UInt64, _ count: Int) -> String {
        let halves = [position >> 32, position & 0xffff_ffff].map { String($0, radix: 16, uppercase: true) }
        return "\(halves.joined(separator: "/")):\(count):\(committedAt.microseconds)"
    }
}

// MARK: - LoggedEvent

/// An event with the log entry from which it was made.
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

    /// Sets how the event's version relates to the versions of earlier events.
    mutating func setLineage(_ lineage: IngestEvent.Lineage) {
        guard hasVersions, case .success(var event) = entry.event, event.operation != .delete else { return }
        event.lineage = lineage
        entry = IngestRequest.Entry(eventID: entry.eventID, event: .success(event))
    }

    /// Whether a ``TransactionFold`` keeps track of the event's row.
    package var isFollowedByRow: Bool { step != nil }

    /// Whether the event's row was inserted, or got another id, in a table with versions.
    package var startsVersions: Bool {
        if case .success(let event) = entry.event { event.lineage != .continues } else { false }
    }

    /// The number of bytes of the document; zero without a document.
    package var documentBytes: Int {
        if case .success(let event) = entry.event { event.document?.count ?? 0 } else { 0 }
    }
}

/// The effect of a change on the row with an id. A hash of all columns distinguishes rows.
enum RowStep: Sendable, Hashable {
    /// A row gets the id: it was inserted, or had another id before.
    case arrival(UInt64)
    /// The row with the id has new values.
    case change(from: UInt64, to: UInt64)
    /// The row with the id was deleted, or has another id now.
    case departure(UInt64)
}

// MARK: - TransactionFold

/// Reduces the changes of one transaction to its final state, for ids that pass from one row to another.
///
/// If a unique constraint is deferrable, a transaction may give an id to a row while another row still has it:
/// `UPDATE contact SET id = id + 1` writes "row 1 becomes 2" before "row 2 becomes 3". In the order of the log, the
/// deletion of entity 2 would follow its update, and the entity would be lost. A table with such a constraint has
/// REPLICA IDENTITY FULL, so the log contains each old row as a whole, and this type determines which row leaves an id.
///
/// Transactions of up to ``eventLimit`` events and ``byteLimit`` bytes are reduced exactly. Larger transactions are
/// processed in parts: if an id passes between equal rows in different parts, the order of the log decides.
package struct TransactionFold: Sendable {
    /// The maximum number of events that are held until their transaction ends.
    package static let eventLimit = 20_000
    /// The maximum number of document bytes that are held until their transaction ends.
    package static let byteLimit = 8 << 20
    /// The maximum number of ids of a transaction whose rows are tracked. Changes of further ids keep the log's order.
    static let placeLimit = 250_000

    private struct Key: Hashable {
        let table: QualifiedName?
        let entity: EntityKey
    }

    fileprivate struct Row {
        var hash: UInt64
        /// The held event with the row's newest content; nil if this event was already returned.
        var event: Int?
        /// Whether the row had the id before the transaction.
        let isOriginal: Bool
    }

    /// The rows that had one id within the transaction.
    fileprivate struct Place {
        var rows: [Row] = []
        /// Whether a row had the id before the transaction; nil if the log does not show it.
        var hadRow: Bool?
        var hasOriginalLeft = false
        var hasArrival = false
        /// The held events.
        var events: [Int] = []
    }

    private var places: [Key: Place] = [:]
    /// The ids that a row left after another row had got them.
    private var questions: Set<Key> = []
    /// The ids with held events.
    private var touched: Set<Key> = []
    private var events: [LoggedEvent] = []
    private var bytes = 0

    package init() {}

    package var isEmpty: Bool { events.isEmpty }

    /// Whether held events must be returned before the transaction's end.
    package var isFull: Bool { events.count >= Self.eventLimit || bytes >= Self.byteLimit }

    /// Starts a transaction. All events of the previous transaction must have been taken before.
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

    /// Returns the entities whose existence before the transaction must be read from the feed.
    ///
    /// - Parameter isFinal: whether the transaction has ended.
    package func unknown(isFinal: Bool) -> [EntityKey] {
        (isFinal ? questions : touched).compactMap { key in
            guard let place = places[key], place.hadRow == nil, place.hasArrival else { return nil }
            if isFinal, place.hasOriginalLeft || !place.rows.isEmpty { return nil }
            return key.entity
        }
    }

    /// Removes and returns the held events, without events that the rest of the transaction reverts.
    ///
    /// - Parameter living: the entities of ``unknown(isFinal:)`` that exist in the feed.
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
    /// - Returns: whether a row left the id after another row had got it.
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
