import Foundation
import JSONText
import Testing

@testable import IngestFeature
@testable import SyncModel

/// The events of changed rows, from the columns and values in the log.
@Suite struct LogReaderTests {
    private static func reader(_ table: String, base: Int64 = 0) throws -> LogReader {
        let whole = #"{"table":"public.contact","entity_type":"contact",\#(table)}"#
        let text = #"{"slot":"s","publication":"p","tables":[\#(whole)]}"#
        var report = MemberReport()
        let settings = ReplicationSettings(try JSONTree(parsing: Array(text.utf8)).root, at: "", &report)
        return LogReader(try #require(settings, "\(report.problems)"), base: base, limits: IntakeLimits())
    }

    private static let name = QualifiedName(schema: "public", name: "contact")

    private static func columns(_ names: [(String, UInt32)], keys: Set<String>) -> [FollowedColumn] {
        names.map { FollowedColumn(name: $0.0, type: $0.1, isKey: keys.contains($0.0)) }
    }

    private static func row(_ values: String?...) -> [ColumnValue] {
        values.map { $0.map { $0 == "…" ? .unchanged : .text(Array($0.utf8)) } ?? .null }
    }

    private static func events(_ entries: [IngestRequest.Entry]) throws -> [IngestEvent] {
        try entries.map { try $0.event.get() }
    }

    private static func document(_ event: IngestEvent) -> String {
        event.document.map { String(decoding: $0, as: UTF8.self) } ?? "-"
    }

    private static let plain = #""id":"id""#
    private static let contact: [(String, UInt32)] = [("id", 20), ("name", 25), ("data", 3802)]

    @Test func `rows become entities, and deleted rows delete them`() throws {
        var reader = try Self.reader(Self.plain, base: 1_000)
        try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id"]))
        reader.begin(at: Timestamp(microseconds: 1_795_000_000_000_001))
        let new = try Self.events(
            reader.change(of: 5, old: nil, new: Self.row("7", "Kåre", #"{"a":1}"#), at: 0x1_0000_0002)
        )
        #expect(new.map(\.id) == ["1/2:0:1795000000000001"])
        #expect(new[0].entityID == ServerID(7) && new[0].operation == .upsert && new[0].entityType == "contact")
        #expect(new[0].mark.version == Int64(4_294_968_298))
        #expect(new[0].mark.occurredAt == Timestamp(microseconds: 1_795_000_000_000_000))
        #expect(Self.document(new[0]) == #"{"id":7,"name":"Kåre","data":{"a":1}}"#)
        let gone = try Self.events(reader.change(of: 5, old: Self.row("7", nil, nil), new: nil, at: 0x1_0000_0003))
        #expect(gone.map(\.operation) == [.delete] && gone[0].entityID == ServerID(7) && gone[0].document == nil)
    }

    @Test func `rows of one log position have different names, which are stable across readings`() throws {
        var names: [[String]] = []
        for _ in 0..<2 {
            var reader = try Self.reader(Self.plain)
            try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id"]))
            reader.begin(at: Timestamp(microseconds: 9))
            var found: [String] = []
            for (id, place) in [("1", 8), ("2", 8), ("3", 8), ("4", 9)] {
                found += reader.change(of: 5, old: nil, new: Self.row(id, nil, nil), at: UInt64(place))
                    .compactMap(\.eventID)
            }
            names.append(found)
        }
        #expect(names[0] == ["0/8:0:9", "0/8:1:9", "0/8:2:9", "0/9:0:9"])
        #expect(names[0] == names[1])
    }

    /// Old and new spelling, the column's type, and whether both are one entity.
    @Test(arguments: [
        ("0192F0C1-5E7D-8ABC-8DEF-0123456789AB", "0192f0c1-5e7d-8abc-8def-0123456789ab", 25, true),
        ("1.0", "1.00", 1700, true), ("0", "-0", 701, true), ("1", "1.00", 1700, true), ("1", "1.5", 1700, false),
        ("K", "\u{212a}", 25, false), ("caf\u{e9}", "cafe\u{301}", 25, false), ("04711", "4711", 25, false),
    ])
    func `a key in another spelling of one id is an update`(old: String, new: String, type: UInt32, isOne: Bool) throws
    {
        for isFull in [false, true] {
            var reader = try Self.reader(Self.plain)
            let columns: [(String, UInt32)] = [("id", type), ("name", 25)]
            try reader.relation(5, Self.name, Self.columns(columns, keys: isFull ? ["id", "name"] : ["id"]))
            reader.begin(at: Timestamp(microseconds: 9))
            let entries = reader.change(
                of: 5,
                old: Self.row(old, isFull ? "x" : nil),
                new: Self.row(new, "y"),
                at: 1
            )
            let deletions = entries.count { (try? $0.event.get().operation) == .delete }
            #expect(entries.count == (isOne ? 1 : 2), "\(old) → \(new)")
            #expect(deletions == (isOne ? 0 : 1), "\(old) → \(new)")
        }
    }

    @Test func `a row with text that is not UTF-8 is refused`() throws {
        for id in [#""id":"id""#, #""id":["id","name"]"#, #""id":"name""#] {
            var reader = try Self.reader(id)
            try reader.relation(5, Self.name, Self.columns([("id", 25), ("name", 25)], keys: ["id", "name"]))
            reader.begin(at: Timestamp(microseconds: 9))
            for byte in [0xe8, 0xe9] as [UInt8] {
                let row: [ColumnValue] = [.text(Array("caf".utf8) + [byte]), .text(Array("x".utf8))]
                let entries = reader.change(of: 5, old: nil, new: row, at: UInt64(byte))
                #expect(entries.count == 1)
                guard case .failure(let problem) = try #require(entries.first).event else {
                    Issue.record("the row was accepted")
                    continue
                }
                #expect(problem.detail.contains("cannot be read"), "\(problem.detail)")
            }
        }
    }

    @Test func `a row with another key is another entity`() throws {
        var reader = try Self.reader(Self.plain)
        try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id"]))
        reader.begin(at: Timestamp(microseconds: 9))
        let events = try Self.events(
            reader.change(of: 5, old: Self.row("7", nil, nil), new: Self.row("8", "x", nil), at: 1)
        )
        #expect(events.map(\.operation) == [.delete, .upsert])
        #expect(events.map(\.entityID) == [ServerID(7), ServerID(8)])
        #expect(Set(events.map(\.id)).count == 2)
        // unchanged values are missing and come from the old entity, which is therefore deleted last
        let part = try Self.events(
            reader.change(of: 5, old: Self.row("8", nil, nil), new: Self.row("9", "…", nil), at: 2)
        )
        #expect(part.map(\.operation) == [.patch, .delete])
        #expect(part.map(\.entityID) == [ServerID(9), ServerID(8)])
        #expect(part.map(\.origin) == [ServerID(8), nil] && part[0].isShallow)
    }

    @Test func `a large unchanged value makes a shallow patch, unless the old row has it`() throws {
        var reader = try Self.reader(Self.plain)
        try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id"]))
        reader.begin(at: Timestamp(microseconds: 9))
        let patch = try Self.events(reader.change(of: 5, old: nil, new: Self.row("7", "…", nil), at: 1))[0]
        #expect(patch.operation == .patch && patch.isShallow)
        #expect(Self.document(patch) == #"{"id":7,"data":null}"#)
        try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id", "name", "data"]))
        let whole = try Self.events(
            reader.change(of: 5, old: Self.row("7", "long", "1"), new: Self.row("7", "…", nil), at: 2)
        )
        #expect(whole.map(\.operation) == [.upsert] && !whole[0].isShallow)
        #expect(Self.document(whole[0]) == #"{"id":7,"name":"long","data":null}"#)
    }

    @Test func `columns have the names and roles from the settings`() throws {
        var reader = try Self.reader(
            #""id":"key","owner":"user_id","version":"rev","deleted_at":"gone","columns":{"name":"fullName","rev":"v"}"#
        )
        let columns: [(String, UInt32)] = [
            ("key", 2950), ("name", 25), ("rev", 23), ("gone", 1184), ("user_id", 2950), ("secret", 25),
        ]
        try reader.relation(5, Self.name, Self.columns(columns, keys: ["key"]))
        reader.begin(at: Timestamp(microseconds: 9))
        let (id, user) = ("0192F0C1-5E7D-8ABC-8DEF-0123456789AB", "0192f0c1-5e7d-8abc-8def-0123456789ac")
        let there = try Self.events(reader.change(of: 5, old: nil, new: Self.row(id, "K", "4", nil, user, "s"), at: 1))[
            0
        ]
        #expect(there.entityID.text == id.lowercased() && there.owner == UUID(uuidString: user))
        #expect(there.mark.version == 4 && Self.document(there) == #"{"fullName":"K","v":4}"#)
        let gone = try Self.events(
            reader.change(of: 5, old: nil, new: Self.row(id, "K", "5", "2026-11-24 04:30:00+00", user, "s"), at: 2)
        )[0]
        #expect(gone.operation == .delete && gone.mark.version == 5)
        // the deleted row's version was reported before, so with it the deletion would look old
        let deletion = try Self.events(
            reader.change(of: 5, old: Self.row(id, nil, "5", nil, nil, nil), new: nil, at: 3)
        )[0]
        #expect(deletion.operation == .delete && deletion.mark.version == nil && deletion.mark.occurredAt != nil)
    }

    @Test func `a flag may mark a row as deleted`() throws {
        var reader = try Self.reader(#""id":"id","deleted_at":"gone""#)
        try reader.relation(5, Self.name, Self.columns([("id", 20), ("gone", 16)], keys: ["id"]))
        let operations = try ["t", "f", nil].map {
            try Self.events(reader.change(of: 5, old: nil, new: Self.row("1", $0), at: 1))[0].operation
        }
        #expect(operations == [.delete, .upsert, .upsert])
    }

    @Test func `a key caused the change that wrote it, and no later one`() throws {
        var reader = try Self.reader(#""id":"id","causing_key":"key""#)
        let columns: [(String, UInt32)] = [("id", 20), ("key", 25), ("name", 25)]
        try reader.relation(5, Self.name, Self.columns(columns, keys: ["id", "key", "name"]))
        let key = "0192f0c1-5e7d-8abc-8def-0123456789ab"
        func cause(_ old: [ColumnValue]?, _ new: [ColumnValue], at place: UInt64) throws -> UUID? {
            try Self.events(reader.change(of: 5, old: old, new: new, at: place))[0].causingKey
        }
        reader.begin(at: Timestamp(microseconds: 9))
        #expect(try cause(nil, Self.row("1", key, "a"), at: 1) == UUID(uuidString: key))
        // the same transaction continues
        #expect(try cause(Self.row("1", key, "a"), Self.row("1", key, "b"), at: 2) == UUID(uuidString: key))
        reader.begin(at: Timestamp(microseconds: 10))
        #expect(try cause(Self.row("1", key, "b"), Self.row("1", key, "c"), at: 3) == nil)
        #expect(try cause(Self.row("1", key, "c"), Self.row("1", nil, "d"), at: 4) == nil)
        #expect(try cause(Self.row("1", nil, "d"), Self.row("1", key, "e"), at: 5) == UUID(uuidString: key))
        // keys of other writers may have any form
        #expect(try cause(Self.row("1", key, "e"), Self.row("1", "a\nb", "f"), at: 6) == nil)
    }

    @Test func `refuses a row that cannot be an event, without affecting others`() throws {
        var reader = try Self.reader(#""id":"id","owner":"name""#)
        try reader.relation(5, Self.name, Self.columns([("id", 25), ("name", 25), ("data", 114)], keys: ["id"]))
        reader.begin(at: Timestamp(microseconds: 9))
        let rows: [[ColumnValue]] = [
            Self.row(nil, nil, nil), Self.row("", nil, nil), Self.row("1", "no UUID", nil), Self.row("1", nil, "{"),
            Self.row("1", nil, #"{"a":1,"a":2}"#), Self.row("1", nil, String(repeating: "[", count: 2_000)),
            Self.row("1", nil, "\"\(String(repeating: "x", count: 300_000))\""), Self.row("1", nil),
            Self.row("1", nil, "1,2"),
        ]
        for row in rows {
            let entries = reader.change(of: 5, old: nil, new: row, at: 1)
            #expect(entries.count == 1)
            #expect(throws: Problem.self, "\(row.prefix(2))") { try entries[0].event.get() }
        }
    }

    @Test(arguments: [
        (#""id":"nr""#, "no column 'nr'"), (#""id":"id","version":"v""#, "no column 'v'"),
        (#""id":"name""#, "REPLICA IDENTITY FULL"), (#""id":"id","version":"name""#, "not a whole number"),
        (#""id":"id","causing_key":"name""#, "REPLICA IDENTITY FULL"),
    ])
    func `reports a table that does not fit the settings, with a remedy`(table: String, expected: String) throws {
        var reader = try Self.reader(table)
        #expect {
            try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id"]))
        } throws: { error in (error as? SourceFailure)?.userMessage.contains(expected) == true }
    }

    @Test func `reads a renamed column of the log as the configured one`() throws {
        var reader = try Self.reader(#""id":"id","renamed":{"nr":"id","label":"name","title":"name"}"#)
        reader.begin(at: Timestamp(microseconds: 9))
        func document(_ names: [String], _ values: String?...) throws -> String {
            let columns = names.map { ($0, UInt32($0 == "id" || $0 == "nr" ? 20 : 25)) }
            try reader.relation(5, Self.name, Self.columns(columns, keys: ["id", "nr"]))
            let row = values.map { ColumnValue.text(Array(($0 ?? "").utf8)) }
            return Self.document(try Self.events(reader.change(of: 5, old: nil, new: row, at: 1))[0])
        }
        #expect(try document(["id", "name"], "7", "a") == #"{"id":7,"name":"a"}"#)
        #expect(try document(["nr", "label"], "7", "b") == #"{"id":7,"name":"b"}"#)
        // only if the configured name is absent, and only the first renamed column that the settings list
        #expect(try document(["id", "label", "name"], "7", "b", "a") == #"{"id":7,"label":"b","name":"a"}"#)
        #expect(try document(["id", "title", "label"], "7", "c", "b") == #"{"id":7,"title":"c","name":"b"}"#)
    }

    @Test func `reports a missing column with the existing ones`() throws {
        var reader = try Self.reader(#""id":"id","columns":{"nick":"nick"}"#)
        #expect {
            try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id"]))
        } throws: { error in
            let message = (error as? SourceFailure)?.userMessage ?? ""
            return ["'nick', which the settings name in 'columns'", "'id', 'name', 'data'.", "'renamed'"]
                .allSatisfy { message.contains($0) }
        }
    }

    @Test func `follows a renamed table by its columns, until another has the name`() throws {
        var reader = try Self.reader(Self.plain)
        reader.begin(at: Timestamp(microseconds: 9))
        let old = QualifiedName(schema: "public", name: "contact_old")
        #expect(!reader.isFollowed(5, old))
        try reader.relation(5, Self.name, Self.columns(Self.contact, keys: ["id"]))
        #expect(reader.isFollowed(5, old))
        try reader.relation(5, old, Self.columns([("data", 3802), ("id", 20)], keys: ["id"]))
        let event = try Self.events(reader.change(of: 5, old: nil, new: Self.row("[]", "7"), at: 1))[0]
        #expect(Self.document(event) == #"{"data":[],"id":7}"# && reader.name(of: 5) == Self.name)
        try reader.relation(6, Self.name, Self.columns(Self.contact, keys: ["id"]))
        #expect(!reader.isFollowed(5, old) && reader.change(of: 5, old: Self.row(nil, "7"), new: nil, at: 2).isEmpty)
        #expect(reader.change(of: 6, old: nil, new: Self.row("8", nil, nil), at: 3).count == 1)
    }

    @Test func `ignores other tables`() throws {
        var reader = try Self.reader(Self.plain)
        try reader.relation(6, QualifiedName(schema: "other", name: "contact"), Self.columns(Self.contact, keys: []))
        #expect(reader.change(of: 6, old: nil, new: Self.row("1", nil, nil), at: 1).isEmpty)
        #expect(reader.name(of: 6) == nil && reader.takeIgnored() == 1 && reader.takeIgnored() == 0)
    }

    @Test func `a shallow patch replaces whole members`() throws {
        let stored = Array(#"{"id":7,"data":{"a":1,"b":2},"big":"x","name":"n"}"#.utf8)
        let patch = Array(#"{"id":7,"data":{"a":1},"name":null}"#.utf8)
        let merged = try #require(BuiltInStore.overlay(patch, over: stored))
        #expect(String(decoding: merged, as: UTF8.self) == #"{"big":"x","id":7,"data":{"a":1},"name":null}"#)
        let long = Array(#"{"a":"\#(String(repeating: "x", count: 1_048_576))"}"#.utf8)
        #expect(BuiltInStore.overlay(patch, over: long) == nil)
    }
}
