package import SyncModel

/// Converts a database's log to events, message by message.
///
/// Pure: the same log gives the same events under the same names, for any number of readings from any starting point.
package struct LogReader: Sendable {
    private let tables: [QualifiedName: FollowedTable]
    private let limits: IntakeLimits
    /// Added to places in the log to form versions.
    private let base: Int64
    private var readers: [UInt32: TableReader] = [:]
    private var names: [UInt32: QualifiedName] = [:]
    private var committedAt = Timestamp(microseconds: 0)
    private var freshKeys: Set<ByteExactString> = []
    /// The place of the last change, and the number of events there: rows of one COPY share one place.
    private var last: (position: UInt64, count: Int) = (.max, 0)
    private var ignored = 0

    package init(_ settings: ReplicationSettings, base: Int64, limits: IntakeLimits) {
        tables = Dictionary(settings.tables.map { ($0.name, $0) }) { first, _ in first }
        self.base = base
        self.limits = limits
    }

    /// A transaction whose changes follow.
    package mutating func begin(at committedAt: Timestamp) {
        self.committedAt = committedAt
        freshKeys.removeAll(keepingCapacity: true)
        last = (.max, 0)
    }

    /// Whether the settings name a table, or did so before it was renamed.
    package func isFollowed(_ id: UInt32, _ name: QualifiedName) -> Bool { followed(id, name) != nil }

    private func followed(_ id: UInt32, _ name: QualifiedName) -> QualifiedName? {
        tables[name] == nil ? names[id] : name
    }

    /// Notes a table's present columns. A table that was renamed is the same table, until another has its name.
    ///
    /// - Throws: the table's defect. Nothing may be read before it is corrected.
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

    /// The events of a change: of a row that was updated, or, where `new` is nil, deleted.
    package mutating func change(
        of id: UInt32,
        old: [ColumnValue]?,
        new: [ColumnValue]?,
        at position: UInt64
    ) -> [IngestRequest.Entry] {
        events(of: id, old: old, new: new, at: position).map(\.entry)
    }

    /// The events of a row that was inserted.
    package mutating func insertion(into id: UInt32, _ new: [ColumnValue], at position: UInt64) -> [LoggedEvent] {
        events(of: id, old: nil, new: new, isInsertion: true, at: position)
    }

    /// The events of a change: of a row that was inserted or updated, or, where `new` is nil, deleted.
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

    /// Changes of tables that are not followed, since the last call.
    package mutating func takeIgnored() -> Int {
        defer { ignored = 0 }
        return ignored
    }

    /// A followed table's name; nil of others.
    package func name(of id: UInt32) -> QualifiedName? { readers[id] == nil ? nil : names[id] }

    /// With the time of the commit: a server that was set back writes other things to the same places.
    private func name(_ position: UInt64, _ count: Int) -> String {
        let halves = [position >> 32, position & 0xffff_ffff].map { String($0, radix: 16, uppercase: true) }
        return "\(halves.joined(separator: "/")):\(count):\(committedAt.microseconds)"
    }
}
