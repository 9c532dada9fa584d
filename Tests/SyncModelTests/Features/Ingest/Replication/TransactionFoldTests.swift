import JSONText
import Testing

@testable import IngestFeature
@testable import SyncModel

/// The net events of a transaction in which ids pass from row to row.
@Suite struct TransactionFoldTests {
    private static let table = QualifiedName(schema: "public", name: "contact")

    private struct Log {
        var fold = TransactionFold()
        var count = 0

        mutating func add(_ operation: IngestOperation, _ id: Int64, _ step: RowStep?) {
            count += 1
            let event = IngestEvent(
                id: "\(count)",
                entityType: "contact",
                entityID: ServerID(id),
                mark: SourceMark(version: Int64(count)),
                operation: operation,
                document: operation == .delete ? nil : Array("{}".utf8)
            )
            let entry = IngestRequest.Entry(eventID: event.id, event: .success(event))
            fold.add(LoggedEvent(entry, table: table, step: step, hasVersions: true))
        }

        /// The row with this content gets another id.
        mutating func move(_ content: UInt64, from: Int64, to: Int64) {
            add(.delete, from, .departure(content * 100 + UInt64(from)))
            add(.upsert, to, .arrival(content * 100 + UInt64(to)))
        }

        mutating func insert(_ content: UInt64, _ id: Int64) {
            add(.upsert, id, .arrival(content * 100 + UInt64(id)))
        }

        mutating func delete(_ content: UInt64, _ id: Int64) {
            add(.delete, id, .departure(content * 100 + UInt64(id)))
        }

        /// The remaining events, as `+id` and `-id`, with the number of the change.
        mutating func take(living: Set<Int64> = [], isFinal: Bool = true) -> [String] {
            let living = Set(living.map { EntityKey(type: "contact", id: String($0)) })
            let known = Set(fold.unknown(isFinal: isFinal)).intersection(living)
            return fold.take(living: known).compactMap { logged in
                guard case .success(let event) = logged.entry.event else { return nil }
                return (event.operation == .delete ? "-" : "+") + event.entityID.text + "#" + event.id
            }
        }
    }

    @Test func `if all ids grow by one, each id has its last content`() {
        var log = Log()
        for id in 1...3 { log.move(UInt64(id), from: Int64(id), to: Int64(id) + 1) }
        #expect(log.take() == ["-1#1", "+2#2", "+3#4", "+4#6"])
        // if the rows are equal, the result depends on which entities the feed has
        var equal = Log()
        for id in 1...3 { equal.move(7, from: Int64(id), to: Int64(id) + 1) }
        #expect(equal.fold.unknown(isFinal: true).map(\.id).sorted() == ["2", "3"])
        #expect(equal.take(living: [1, 2, 3]) == ["-1#1", "+4#6"])
    }

    @Test func `two rows that swap their ids both remain`() {
        var log = Log()
        log.move(1, from: 1, to: 2)
        log.move(2, from: 2, to: 1)
        #expect(log.take() == ["-1#1", "+2#2", "+1#4"])
    }

    @Test func `an id at which a row came and went in a transaction is absent, or keeps its earlier row`() {
        var log = Log()
        log.insert(1, 5)
        log.delete(1, 5)
        #expect(log.take() == ["-5#2"])
        var visitor = Log()
        visitor.insert(1, 5)
        visitor.move(1, from: 5, to: 6)
        #expect(visitor.take(living: [5]) == ["+6#3"])
    }

    @Test func `a row that leaves and returns is present, and rows of other ids are unchanged`() {
        var log = Log()
        log.move(1, from: 1, to: 2)
        log.move(1, from: 2, to: 1)
        log.insert(3, 9)
        log.add(.upsert, 9, .change(from: 309, to: 409))
        log.add(.upsert, 10, nil)
        #expect(log.take() == ["-1#1", "-2#3", "+1#4", "+9#5", "+9#6", "+10#7"])
    }

    @Test func `a transaction in parts remembers which rows arrived`() {
        var log = Log()
        log.move(1, from: 1, to: 2)
        #expect(log.take(living: [1, 2], isFinal: false) == ["-1#1", "+2#2"])
        log.move(2, from: 2, to: 3)
        #expect(log.take() == ["+3#4"])
    }

    @Test(arguments: 0..<200)
    func `random moves under a deferrable constraint end in the state of the table`(round: Int) throws {
        var generator = SystemRandomNumberGenerator()
        // the ids of rows by their contents, which are unique
        var rows: [UInt64: Int64] = [1: 1, 2: 2, 3: 3]
        let before = rows
        var log = Log()
        var nextContent: UInt64 = 4
        for _ in 0..<Int.random(in: 1...8, using: &generator) {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0:
                let id = Int64.random(in: 1...5, using: &generator)
                log.insert(nextContent, id)
                rows[nextContent] = id
                nextContent += 1
            case 1:
                guard let (content, id) = rows.randomElement(using: &generator) else { continue }
                log.delete(content, id)
                rows[content] = nil
            default:
                guard let (content, id) = rows.randomElement(using: &generator) else { continue }
                let other = Int64.random(in: 1...5, using: &generator)
                guard other != id else { continue }
                log.move(content, from: id, to: other)
                rows[content] = other
            }
        }
        // the constraint holds at the end
        guard Set(rows.values).count == rows.count else { return }
        var state = Set(before.values)
        for change in log.take(living: Set(before.values)) {
            let id = try #require(Int64(change.dropFirst().prefix { $0 != "#" }))
            if change.hasPrefix("+") { state.insert(id) } else { state.remove(id) }
        }
        #expect(state == Set(rows.values), "\(before) became \(rows) in \(log.count) changes")
    }
}
