import JSONText
import SyncModel

/// Makes events from the rows of one followed table. The reader uses the columns that the log last described.
struct TableReader: Sendable {
    /// The position of a change in the log, with the ids for its events (`event_id`).
    struct Place {
        /// The ids for the change's events. If an update changes the row's id, there are two events: the deletion of
        /// the entity with the old id gets the first id, and the other event gets the second. All other changes have
        /// one event, which gets the first id.
        let eventIDs: [String]
        /// The version of the row. It is used only if the table has no column with versions.
        let version: Int64
        let committedAt: Timestamp
    }

    let table: FollowedTable
    /// The indices of the columns that contain the entity's id.
    private let ids: [Int]
    private let owner: Int?
    private let version: Int?
    private let causingKey: Int?
    private let deletedAt: Int?
    private let types: [ColumnType]
    /// The members of a document. Each has the index of its column and its own name.
    private let members: [(column: Int, name: String)]
    /// Whether the log contains complete old rows, because of REPLICA IDENTITY FULL or a key of all columns.
    private let includesOldRows: Bool

    /// - Throws: the defect of the table or of its settings, and how to correct it.
    init(_ table: FollowedTable, _ announced: [FollowedColumn]) throws(SourceFailure) {
        self.table = table
        let renamings = table.renamings(of: announced.lazy.map(\.name))
        let columns = announced.map { column in
            FollowedColumn(name: renamings[column.name] ?? column.name, type: column.type, isKey: column.isKey)
        }
        var places: [ByteExactString: Int] = [:]
        for (index, column) in columns.enumerated() where places[column.name] == nil { places[column.name] = index }
        for (role, column) in table.namedColumns where places[column] == nil {
            throw Self.lack(of: column, as: role, table, announced)
        }
        let place = { (name: String?) -> Int? in name.flatMap { places[$0] } }
        ids = table.ids.compactMap(place)
        owner = place(table.owner)
        version = place(table.version)
        causingKey = place(table.causingKey)
        deletedAt = place(table.deletedAt)
        types = columns.map { ColumnType($0.type) }
        switch table.columns {
        case .all: members = columns.enumerated().map { ($0.offset, $0.element.name) }
        case .named(let named): members = named.compactMap { one in places[one.column].map { ($0, one.name) } }
        }
        includesOldRows = columns.allSatisfy(\.isKey)
        if let lacking = ids.first(where: { !columns[$0].isKey }) {
            let reason = "its replica identity does not contain '\(columns[lacking].name)'"
            let past =
                "either remove the table from the settings until those parts are read, or recreate the slot. Then "
                + "import the table"
            throw SourceFailure(Self.advice(table, reason, past))
        }
        if let version, ![20, 21, 23, 26, 1700].contains(columns[version].type) {
            throw SourceFailure(
                "Column '\(columns[version].name)' of table \(table.name) is its version, but not a whole number. "
                    + "Choose another column, or omit version: then the version of a change is its position in the log."
            )
        }
        if table.causingKey != nil, !includesOldRows {
            let reason = "otherwise the log does not show whether this change or an earlier one wrote its causing_key"
            throw SourceFailure(
                Self.advice(table, reason, "omit causing_key in the settings until those parts are read")
            )
        }
    }

    private static func advice(_ table: FollowedTable, _ reason: String, _ past: String) -> String {
        """
        Table \(table.name) needs another replica identity: \(reason). In the source's database run: \
        ALTER TABLE \(table.name.sql) REPLICA IDENTITY FULL. If this was done already, older parts of the log still \
        have to be read: \(past).
        """
    }

    /// The number of columns that an error message about a missing column lists.
    private static let listedColumns = 20

    private static func lack(
        of column: String,
        as role: String,
        _ table: FollowedTable,
        _ announced: [FollowedColumn]
    ) -> SourceFailure {
        let names = announced.prefix(listedColumns).map { "'\($0.name)'" }.joined(separator: ", ")
        return SourceFailure(
            """
            Table \(table.name) has no column '\(column)', which the settings name in '\(role)', at this position of \
            the log. If the column has another name at this position, add the other name to the table's 'renamed', or \
            write it in the settings instead of '\(column)'. Otherwise the publication omits the column, or it was \
            dropped: correct the publication or the settings. \
            The table has \(names)\
            \(announced.count > listedColumns ? " and others" : "").
            """
        )
    }

    // MARK: - Changes

    /// The maximum number of events from one change.
    static let eventLimit = 2

    /// Returns the events of an inserted or updated row. If the update changed the row's id, one of the events deletes
    /// the entity with the old id.
    func events(
        old: [ColumnValue]?,
        new: [ColumnValue],
        isInsertion: Bool,
        at place: Place,
        freshKeys: inout Set<ByteExactString>,
        _ limits: IntakeLimits
    ) -> [LoggedEvent] {
        guard new.count == types.count, old.map({ $0.count == types.count }) ?? true else {
            return [logged(Self.damaged(place.eventIDs[0]))]
        }
        var row = new
        for (index, value) in new.enumerated() where value == .unchanged {
            guard let old, includesOldRows || ids.contains(index) else { continue }
            row[index] = old[index]
        }
        var gone: LoggedEvent?
        if let old, id(of: old) != nil, ids.contains(where: { old[$0] != row[$0] }),
            !isSameEntity(old, row, at: place, limits)
        {
            gone = logged(
                deletion(of: old, at: place, eventID: place.eventIDs[0], limits),
                includesOldRows ? .departure(Self.hash(old)) : nil
            )
        }
        let step = step(old, row, arrives: isInsertion || gone != nil)
        let eventID = place.eventIDs[gone == nil ? 0 : 1]
        guard !isDeleted(row) else {
            return (gone.map { [$0] } ?? []) + [logged(deletion(of: row, at: place, eventID: eventID, limits), step)]
        }
        let key = key(of: row, before: old, &freshKeys)
        let isWhole = !members.contains { row[$0.column] == .unchanged }
        let text = event(row, at: place, eventID: eventID, isWhole ? .upsert : .patch) { writer in
            writer.name("document")
            writeDocument(row, to: &writer)
            if let owner, case .text(let text) = row[owner] { writer.member("owner", Self.string(text)) }
            if let key { writer.member("causing_key", key) }
        }
        guard !isWhole else {
            var whole = logged(Self.entry(text, eventID, limits), step)
            if isInsertion || gone != nil { whole.setLineage(.restartsIfDeleted) }
            return (gone.map { [$0] } ?? []) + [whole]
        }
        // the log lacks large values that did not change; this event takes these values from the entity with the old
        // id, so the event must precede the deletion of that entity
        let part = Self.entry(text, eventID, limits, ofRowThatWas: gone.flatMap { try? $0.entry.event.get().entityID })
        return [logged(part, step)] + (gone.map { [$0] } ?? [])
    }

    /// Whether the ids of two rows are different spellings of the same id.
    ///
    /// Examples are a UUID in upper and lower case, `1.0` and `1.00`, and `0` and `-0`. In this case the entity's id is
    /// unchanged, and a deletion under the old spelling would delete the entity.
    private func isSameEntity(
        _ old: [ColumnValue],
        _ row: [ColumnValue],
        at place: Place,
        _ limits: IntakeLimits
    ) -> Bool {
        let keys = [old, row].map { row in
            try? deletion(of: row, at: place, eventID: place.eventIDs[0], limits).event.get().key
        }
        return keys[0] != nil && keys[0] == keys[1]
    }

    /// Returns the event of a deleted row.
    func deletion(of old: [ColumnValue], at place: Place, _ limits: IntakeLimits) -> LoggedEvent {
        guard old.count == types.count else { return logged(Self.damaged(place.eventIDs[0])) }
        return logged(
            deletion(of: old, at: place, eventID: place.eventIDs[0], limits),
            includesOldRows ? .departure(Self.hash(old)) : nil
        )
    }

    private func logged(_ entry: IngestRequest.Entry, _ step: RowStep? = nil) -> LoggedEvent {
        LoggedEvent(entry, table: table.name, step: step, hasVersions: version != nil)
    }

    /// Returns how a change affects the row that has the id after the change: the row gets the id (an arrival), or
    /// already had the id (a change).
    ///
    /// The result is nil if the log does not contain complete old rows.
    private func step(_ old: [ColumnValue]?, _ row: [ColumnValue], arrives: Bool) -> RowStep? {
        guard includesOldRows else { return nil }
        if arrives { return .arrival(Self.hash(row)) }
        return .change(from: Self.hash(old ?? row), to: Self.hash(row))
    }

    private static func hash(_ row: [ColumnValue]) -> UInt64 {
        var hasher = Hasher()
        hasher.combine(row)
        return UInt64(bitPattern: Int64(hasher.finalize()))
    }

    private func deletion(
        of row: [ColumnValue],
        at place: Place,
        eventID: String,
        _ limits: IntakeLimits
    ) -> IngestRequest.Entry {
        Self.entry(event(row, at: place, eventID: eventID, .delete) { _ in }, eventID, limits)
    }

    private func isDeleted(_ row: [ColumnValue]) -> Bool {
        guard let deletedAt, case .text(let text) = row[deletedAt] else { return false }
        return types[deletedAt] != .bool || text != [UInt8(ascii: "f")]
    }

    /// Returns the idempotency key of the request that caused a change.
    ///
    /// If the row already had the key before this change, an earlier change wrote the key. The result is then nil,
    /// unless that earlier change is in the same transaction.
    private func key(of row: [ColumnValue], before old: [ColumnValue]?, _ freshKeys: inout Set<ByteExactString>)
        -> String?
    {
        guard let causingKey, case .text(let text) = row[causingKey], text.count <= IngestEvent.maximumKeyBytes else {
            return nil
        }
        guard let key = String(validating: text, as: UTF8.self), key.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }),
            !key.isEmpty
        else { return nil }
        if let old, old[causingKey] == row[causingKey] { return freshKeys.contains(key) ? key : nil }
        if freshKeys.count < Self.freshKeyLimit { freshKeys.insert(key) }
        return key
    }

    private static let freshKeyLimit = 10_000

    // MARK: - Writing

    /// Writes an event in the form that a program would send.
    private func event(
        _ row: [ColumnValue],
        at place: Place,
        eventID: String,
        _ operation: IngestOperation,
        _ more: (inout JSONWriter) -> Void
    ) -> [UInt8] {
        JSONWriter.object(capacity: 512) { writer in
            writer.member("event_id", eventID)
            writer.member("entity_type", table.entityType)
            writer.member("operation", operation.rawValue)
            writer.name("id")
            writeID(of: row, to: &writer)
            if let version {
                // the deletion of a row has no version, because the row's version was already reported and the deletion
                // is newer
                if operation != .delete || isDeleted(row), case .text = row[version] {
                    writer.name("version")
                    write(row[version], as: types[version], to: &writer)
                }
            } else {
                writer.member("version", place.version)
            }
            writer.member("occurred_at", place.committedAt.rfc3339)
            more(&writer)
        }
    }

    private func writeID(of row: [ColumnValue], to writer: inout JSONWriter) {
        if ids.count == 1 { return write(row[ids[0]], as: types[ids[0]], to: &writer) }
        guard let text = id(of: row) else { return writer.null() }
        ColumnType.text.write(text[...], to: &writer)
    }

    /// Returns the joined id; nil if one of the values is missing.
    private func id(of row: [ColumnValue]) -> [UInt8]? { RowID.text(ids.map { (row[$0], types[$0]) }) }

    private func writeDocument(_ row: [ColumnValue], to writer: inout JSONWriter) {
        writer.beginObject()
        for member in members where row[member.column] != .unchanged {
            writer.name(member.name)
            write(row[member.column], as: types[member.column], to: &writer)
        }
        writer.endObject()
    }

    private func write(_ value: ColumnValue, as type: ColumnType, to writer: inout JSONWriter) {
        guard case .text(let text) = value else { return writer.null() }
        type.write(text[...], to: &writer)
    }

    private static func string(_ text: [UInt8]) -> String { String(decoding: text, as: UTF8.self) }

    // MARK: - Reading back

    /// Reads an event like an event of a program, so that the same conditions apply to all events.
    private static func entry(_ text: [UInt8], _ eventID: String, _ limits: IntakeLimits) -> IngestRequest.Entry {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: text, limits: .widest)
        } catch {
            let detail = "the row's document cannot be read: \(error)"
            let problem = Problem(.validationFailed, pointer: "/document", rule: Rule.payload, detail)
            return IngestRequest.Entry(eventID: eventID, event: .failure(problem))
        }
        return IngestDecoder.decode(tree.root, index: 0, limits: limits, hasDefects: tree.root.hasDefects)
    }

    /// Reads a patch. Each of its members replaces a whole member of the stored document.
    private static func entry(
        _ text: [UInt8],
        _ eventID: String,
        _ limits: IntakeLimits,
        ofRowThatWas origin: ServerID?
    ) -> IngestRequest.Entry {
        let entry = entry(text, eventID, limits)
        guard case .success(var event) = entry.event else { return entry }
        (event.isShallow, event.origin) = (true, origin)
        return IngestRequest.Entry(eventID: entry.eventID, event: .success(event))
    }

    private static func damaged(_ eventID: String) -> IngestRequest.Entry {
        let detail = "the number of columns of the row and its table differ"
        return IngestRequest.Entry(
            eventID: eventID,
            event: .failure(Problem(.validationFailed, pointer: "", rule: Rule.payload, detail))
        )
    }
}

extension QualifiedName {
    /// The name with quotes, for SQL.
    package var sql: String {
        [schema, name].map { "\"\($0.replacing("\"", with: "\"\""))\"" }.joined(separator: ".")
    }
}

/// The id of a row that several columns identify.
///
/// The id contains the columns' values as text, in the order of the settings, joined by `:`. In a value, `~` is written
/// as `~0` and `:` as `~1`, so that different rows have different ids. Numbers have no trailing zeros of a fraction,
/// because equal numbers may have different texts (`1.0` and `1.00`).
enum RowID {
    /// The maximum number of columns in an id.
    static let columnLimit = 8

    /// Returns the joined id; nil if one of the values is missing.
    static func text(_ values: [(ColumnValue, ColumnType)]) -> [UInt8]? {
        var joined: [UInt8] = []
        for (index, (value, type)) in values.enumerated() {
            guard case .text(let bytes) = value else { return nil }
            if index > 0 { joined.append(UInt8(ascii: ":")) }
            for byte in type == .number ? number(bytes[...]) : bytes[...] {
                switch byte {
                case UInt8(ascii: "~"): joined += [UInt8(ascii: "~"), UInt8(ascii: "0")]
                case UInt8(ascii: ":"): joined += [UInt8(ascii: "~"), UInt8(ascii: "1")]
                default: joined.append(byte)
                }
            }
        }
        return joined
    }

    private static func number(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        var text = text
        if text.contains(UInt8(ascii: ".")), !text.contains(UInt8(ascii: "e")) {
            while text.last == UInt8(ascii: "0") { text.removeLast() }
            if text.last == UInt8(ascii: ".") { text.removeLast() }
        }
        return text.elementsEqual("-0".utf8) ? text.dropFirst() : text
    }
}
