import Foundation
import GRDB
import SluiceClient

/// The cost of enqueueing a write, and the time to drain a full outbox.
///
/// The cost is compared, in turns, with that of the same insert into a table that is not synchronized, and with that
/// of inserting the rows that an enqueue writes.
struct Writes {
    /// The number of writes that are drained at the end.
    private static let writes = 10_000
    /// The records that a round inserts with each size of transactions. The last size is one transaction for all.
    private static let (records, sizes) = (100, [1, 10, 100])
    private let options: Options
    private let phone: Phone

    init(_ options: Options) throws {
        self.options = options
        phone = try Phone(options.gateway, token: options.token)
    }

    func figures() async throws -> Figures {
        var figures = Figures()
        // the first round, which compiles statements and opens the database, is not measured
        _ = try await round(size: 1)
        var rounds: [Int: [(plain: Double, both: Double, floor: Double)]] = [:]
        for _ in 0..<options.rounds {
            for size in Self.sizes { rounds[size, default: []].append(try await round(size: size)) }
        }
        for size in Self.sizes {
            guard let rounds = rounds[size] else { continue }
            figures.add("insert_by_\(size)_microseconds", rounds.map(\.plain).median)
            figures.add("insert_and_enqueue_by_\(size)_microseconds", rounds.map(\.both).median)
            figures.add("enqueue_by_\(size)_microseconds", rounds.map { $0.both - $0.plain }.median)
            figures.add("enqueue_floor_by_\(size)_microseconds", rounds.map { $0.floor - $0.plain }.median)
            let ratios = rounds.map { $0.both / $0.plain }
            figures.add("enqueue_by_\(size)_ratio", ratios.median)
            figures.add("enqueue_by_\(size)_lowest_ratio", ratios.min() ?? 0)
            figures.add("enqueue_by_\(size)_highest_ratio", ratios.max() ?? 0)
        }
        try await drain(&figures)
        return figures
    }

    /// Returns the microseconds per record that is only inserted, inserted and enqueued, or inserted with the rows of
    /// an enqueue.
    private func round(size: Int) async throws -> (plain: Double, both: Double, floor: Double) {
        let plain = try await insert(size) { db, note in try PlainNote(note).insert(db) }
        let both = try await insert(size) { [sluice = phone.sluice] db, note in
            try note.insert(db)
            try sluice.enqueue(.create(note), in: db)
        }
        let rows = try await phone.database.read { try Floor($0) }
        let floor = try await insert(size) { db, note in
            try PlainNote(note).insert(db)
            try rows.insert(db)
        }
        return (plain, both, floor)
    }

    private func insert(
        _ size: Int,
        _ body: @escaping @Sendable (Database, Note) throws -> Void
    ) async throws -> Double {
        let seconds = try await Clock.seconds {
            for _ in 0..<Self.records / size {
                try await phone.database.write { db in
                    for _ in 0..<size { try body(db, Note()) }
                }
            }
        }
        return seconds / Double(Self.records) * 1e6
    }

    private func drain(_ figures: inout Figures) async throws {
        let waiting = try await phone.database.read { try Note.fetchCount($0) }
        try await phone.database.write { [sluice = phone.sluice] db in
            for _ in waiting..<max(waiting, Self.writes) {
                let note = Note()
                try note.insert(db)
                try sluice.enqueue(.create(note), in: db)
            }
        }
        let cpu = Clock.cpu
        let seconds = try await Clock.seconds { try await phone.synchronize() }
        figures.add("drained_mutations", Double(max(waiting, Self.writes)))
        figures.add("drain_seconds", seconds)
        figures.add("drain_own_cpu_seconds", Clock.cpu - cpu)
    }
}
