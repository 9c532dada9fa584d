import Foundation
import GRDB
import SluiceClient

// What the phone's library takes: enqueueing beside a plain insert, draining a full outbox, the first pull, and a pull
// under edits that wait. Prints a JSON object. Arguments: the gateway's address, two tokens of one organization, and
// how many entities to pull at first.

struct Note: Codable, FetchableRecord, PersistableRecord, Syncable, Sendable {
    var id = UUID()
    var title: String
    var text: String
    var amount: String?
    var date: Date

    static let sync = EntitySync(
        "note",
        table: "note",
        key: .uuid("id"),
        columns: [.text("title"), .text("text"), .decimal("amount"), .date("date")]
    )

    init(_ index: Int) {
        title = "Note \(index)"
        text = "Visited the customer, who asked for another offer until the end of the month."
        amount = "129.90"
        date = Date(timeIntervalSince1970: 1_795_000_000)
    }
}

let arguments = CommandLine.arguments
guard arguments.count == 5, let gateway = URL(string: arguments[1]), let count = Int(arguments[4]) else {
    FileHandle.standardError.write(Data("usage: PhoneBenchmark GATEWAY TOKEN OTHER-TOKEN ENTITIES\n".utf8))
    exit(2)
}

func phone(_ token: String) throws -> (DatabasePool, SluiceClient) {
    let folder = FileManager.default.temporaryDirectory.appending(path: "phone-bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let pool = try DatabasePool(path: folder.appending(path: "app.sqlite").path)
    var migrator = DatabaseMigrator()
    migrator.registerSluiceMigrations()
    migrator.registerMigration("note") { db in
        try db.execute(
            sql: "CREATE TABLE note (id BLOB PRIMARY KEY NOT NULL, title TEXT, text TEXT, amount TEXT, date TEXT);"
                + "CREATE TABLE plain (id BLOB PRIMARY KEY NOT NULL, title TEXT, text TEXT, amount TEXT, date TEXT);"
        )
    }
    try migrator.migrate(pool)
    var configuration = SluiceClient.Configuration()
    configuration.usesEvents = false
    configuration.pageLimit = 1_000
    let client = try SluiceClient(database: pool, gateway: gateway, entities: [Note.sync], configuration: configuration)
    {
        token
    }
    return (pool, client)
}

func seconds(_ body: () async throws -> Void) async rethrows -> Double {
    let began = ContinuousClock.now
    try await body()
    let taken = began.duration(to: .now).components
    return Double(taken.seconds) + Double(taken.attoseconds) * 1e-18
}

/// The most memory that this process ever held, in MB.
func peakMemory() -> Double {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    return line.flatMap { Double($0.split(whereSeparator: \.isWhitespace)[1]) }.map { $0 / 1_024 } ?? 0
}

var figures: [(String, Double)] = []
if arguments[3] != "-" {
    let (pool, client) = try phone(arguments[2])
    // one write a transaction, as an app does
    let rounds = 2_000
    let plain = try await seconds {
        for index in 0..<rounds {
            try await pool.write { db in
                let note = Note(index)
                try db.execute(
                    sql: "INSERT INTO plain VALUES (?, ?, ?, ?, ?)",
                    arguments: [note.id, note.title, note.text, note.amount, note.date]
                )
            }
        }
    }
    let enqueued = try await seconds {
        for index in 0..<rounds {
            try await pool.write { db in
                let note = Note(index)
                try note.insert(db)
                try client.enqueue(.create(note), in: db)
            }
        }
    }
    figures.append(("insert_microseconds", plain / Double(rounds) * 1e6))
    figures.append(("insert_and_enqueue_microseconds", enqueued / Double(rounds) * 1e6))
    let bulk = try await seconds {
        try await pool.write { db in
            for index in rounds..<10_000 {
                let note = Note(index)
                try note.insert(db)
                try client.enqueue(.create(note), in: db)
            }
        }
    }
    figures.append(("enqueue_in_one_transaction_microseconds", bulk / Double(10_000 - rounds) * 1e6))
    var status = client.currentStatus
    let drained = await seconds { status = await client.syncOnce(deadline: .seconds(300)) }
    guard status.pending == 0, status.failed == 0 else { fatalError("\(status)") }
    figures.append(("drain_10000_seconds", drained))
    if count > 10_000 {
        for start in stride(from: 10_000, to: count, by: 10_000) {
            try await pool.write { db in
                for index in start..<min(start + 10_000, count) {
                    let note = Note(index)
                    try note.insert(db)
                    try client.enqueue(.create(note), in: db)
                }
            }
            status = await client.syncOnce(deadline: .seconds(300))
            guard status.pending == 0 else { fatalError("\(status)") }
        }
    }
    // a pull of 1,000 changes under 1,000 edits that wait
    let (theirs, other) = try phone(arguments[3])
    _ = await other.syncOnce(deadline: .seconds(600))
    let notes = try await theirs.read { try Note.order(Column("title")).limit(1_000).fetchAll($0) }
    try await theirs.write { db in
        for var note in notes {
            note.text = "changed"
            try note.update(db)
            try other.enqueue(.update(note), in: db)
        }
    }
    _ = await other.syncOnce(deadline: .seconds(60))
    let own = try await pool.read { try Note.order(Column("title")).limit(1_000).fetchAll($0) }
    try await pool.write { db in
        for var note in own {
            note.title += "!"
            try note.update(db)
            try client.enqueue(.update(note), in: db)
        }
        // they wait: nothing is pushed
        try db.execute(sql: "UPDATE sluice_mutations SET status = 'failed' WHERE status = 'queued'")
    }
    let under = await seconds { _ = await client.syncOnce(deadline: .seconds(60)) }
    figures.append(("pull_1000_under_1000_edits_seconds", under))
} else {
    let (pool, client) = try phone(arguments[2])
    let before = peakMemory()
    let pulled = await seconds { _ = await client.syncOnce(deadline: .seconds(600)) }
    let rows = try await pool.read { try Note.fetchCount($0) }
    figures.append(("first_pull_rows", Double(rows)))
    figures.append(("first_pull_rows_per_second", Double(rows) / pulled))
    figures.append(("first_pull_peak_megabytes", peakMemory()))
    figures.append(("megabytes_before", before))
}
print("{" + figures.map { "\"\($0)\": \(($1 * 10).rounded() / 10)" }.joined(separator: ", ") + "}")
