import Foundation
import JSONText

@testable import IngestFeature
@testable import Postgres
@testable import SyncModel

/// Messages from an untrusted database, each after its length in two bytes. For any bytes there is a result. It is
/// JSON, has unique names, and is the same for a second reading.
enum ReplicationTarget {
    private static let settings: ReplicationSettings = {
        let text = """
            {"slot":"s","publication":"p","tables":[
            {"table":"public.t","entity_type":"t","id":"id","owner":"owner","version":"rev","deleted_at":"gone","columns":"all"},
            {"table":"public.k","entity_type":"k","id":"id","causing_key":"key","columns":{"id":"i","a":"b"},
             "renamed":{"no":"id","x":"a"}},
            {"table":"public.p","entity_type":"p","id":"id"}]}
            """
        var report = MemberReport()
        guard let tree = try? JSONTree(parsing: Array(text.utf8)),
            let settings = ReplicationSettings(tree.root, at: "", &report)
        else { fatalError("\(report.problems)") }
        return settings
    }()

    static func run(_ bytes: [UInt8]) {
        let first = events(bytes)
        expect(first == events(bytes), "a second reading differs")
        value(bytes)
    }

    /// A value of the type that the first bytes name.
    private static func value(_ bytes: [UInt8]) {
        guard bytes.count >= 2 else { return }
        let oid = UInt32(bytes[0]) << 8 | UInt32(bytes[1])
        let type = ColumnType(oid)
        var writer = JSONWriter()
        type.write(bytes[2...], to: &writer)
        // a value that is not UTF-8 makes its row unreadable on purpose, so that the row is refused
        guard String(validating: bytes[2...], as: UTF8.self) != nil else { return }
        // for json, the document's parser decides
        if type == .json || type == .array(of: .json) { return }
        expect((try? JSONTree(parsing: writer.bytes, limits: .widest)) != nil, "not JSON: \(show(writer.bytes))")
    }

    private struct Told: Equatable {
        var name: String?
        var event: IngestEvent?
    }

    private static func events(_ bytes: [UInt8]) -> [Told] {
        var reader = LogReader(settings, base: 7, limits: IntakeLimits())
        var found: [Told] = []
        var names: Set<ByteExactString> = []
        var rest = bytes[...]
        var position: UInt64 = 0
        while rest.count >= 2 {
            let length = min(Int(rest.removeFirst()) << 8 | Int(rest.removeFirst()), rest.count)
            let part = Array(rest.prefix(length))
            rest = rest.dropFirst(length)
            guard let message = try? part.withUnsafeBytes({ try ReplicationDecoder.message($0) }) else { continue }
            position += UInt64(length & 1)
            for entry in entries(message, &reader, at: position, part.count, &names) {
                found.append(Told(name: entry.eventID, event: try? entry.event.get()))
                check(entry, &names)
            }
        }
        return found
    }

    private static func entries(
        _ message: ReplicationMessage,
        _ reader: inout LogReader,
        at position: UInt64,
        _ count: Int,
        _ names: inout Set<ByteExactString>
    ) -> [IngestRequest.Entry] {
        switch message {
        case .begin(_, let at):
            reader.begin(at: Timestamp(microseconds: at))
            names = []
        case .relation(let relation):
            expect(relation.columns.count < count, "more columns than bytes")
            let name = QualifiedName(schema: relation.schema, name: relation.name)
            let columns = relation.columns.map { FollowedColumn(name: $0.name, type: $0.type, isKey: $0.isKey) }
            do throws(SourceFailure) {
                try reader.relation(relation.id, name, columns)
            } catch {
                expect(!error.userMessage.isEmpty, "no text")
                expect(reader.name(of: relation.id) == nil, "an invalid table is followed")
            }
        case .insertion(let table, let new):
            expect(new.count < count, "more values than bytes")
            return reader.change(of: table, old: nil, new: new.map(value), at: position)
        case .row(let table, let old, let new):
            expect(new.count < count && (old?.count ?? 0) < count, "more values than bytes")
            return reader.change(of: table, old: old?.map(value), new: new.map(value), at: position)
        case .deletion(let table, let old):
            expect(old.count < count, "more values than bytes")
            return reader.change(of: table, old: old.map(value), new: nil, at: position)
        case .truncation(let tables): expect(tables.count < count, "more tables than bytes")
        case .commit, .other: break
        }
        return []
    }

    private static func value(_ value: ReplicationValue) -> ColumnValue {
        switch value {
        case .null: .null
        case .unchanged: .unchanged
        case .text(let bytes): .text(bytes)
        }
    }

    private static func check(_ entry: IngestRequest.Entry, _ names: inout Set<ByteExactString>) {
        if let name = entry.eventID {
            expect(name.utf8.count <= IngestEvent.maximumIDBytes, "a long name: \(name)")
        }
        switch entry.event {
        case .failure(let problem): expect(!problem.detail.isEmpty, "refused without a reason")
        case .success(let event):
            expect((event.operation == .delete) == (event.document == nil), "\(event)")
            guard let document = event.document else { return }
            guard let tree = try? JSONTree(parsing: document) else {
                return expect(false, "not JSON: \(show(document))")
            }
            expect(tree.root.kind == .object && !tree.root.hasDefects, "invalid document: \(show(document))")
            expect(ContentHash(of: document) != nil, "content that cannot be compared")
            guard event.isShallow else { return }
            expect(event.operation == .patch, "a whole entity that is a patch")
            let merged = BuiltInStore.overlay(document, over: Array(#"{"a":{"x":1},"zz":2}"#.utf8))
            let whole = merged.flatMap { try? JSONTree(parsing: $0) }
            expect(whole?.root["zz"]?.int64 == 2 || tree.root["zz"] != nil, "a member is lost")
        }
    }
}
