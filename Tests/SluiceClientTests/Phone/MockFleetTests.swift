import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// Five phones of two users and a gateway in memory: random edits, deletions of parents, lost answers, restarts,
/// restored phones and gateways, a lost phone, and two phones from one backup. In the end all phones show the same
/// data, and every write is accounted for.
///
/// The seed determines the steps, the rows that they change, and the moments of interruptions. No step depends on the
/// time or on random ids.
@Suite struct MockFleetTests {
    private static let environment = ProcessInfo.processInfo.environment

    @Test(arguments: [environment["SLUICE_PHONES_SEED"].flatMap { UInt64($0) } ?? .random(in: 1...1_000_000)])
    func `phones of a gateway in memory converge`(_ seed: UInt64) async throws {
        let steps = Self.environment["SLUICE_PHONES_STEPS"].flatMap { Int($0) } ?? 300
        note("phones in memory: seed \(seed), \(steps) steps")
        let fleet = try MockFleet(seed: seed)
        for step in 1...steps {
            if step % 500 == 0 { note("phones in memory: step \(step)") }
            try await fleet.step()
        }
        try await fleet.settle()
        let complaints = try await fleet.complaints()
        if complaints.isEmpty { return }
        let repetition = "SLUICE_PHONES_SEED=\(seed) SLUICE_PHONES_STEPS=\(steps)"
        Issue.record("\(repetition) repeats this failure: \(complaints.joined(separator: "\n"))")
    }
}

/// The phones, and all writes that were committed on them.
private final class MockFleet {
    private struct Write {
        let phone: Int
        let number: Int
        var mark: String { "\(phone)-\(number)" }
    }

    private let gateway = MockGateway()
    private var random: SplitMix
    private var phones: [MockPhone] = []
    /// Whether each phone is lost, so that it is not used any more.
    private var isLost: [Bool] = []
    private let users = ["kari", "ola", "kari", "ola", "kari"]
    private var backups: [Int: String] = [:]
    private var gatewayBackup: MockGateway.Backup?
    private var writes: [UUID: Write] = [:]
    /// Writes that their phone may have lost, because the phone was restored or lost.
    private var forgotten: Set<UUID> = []
    private var counter = 0

    init(seed: UInt64) throws {
        random = SplitMix(state: seed)
        gateway.relations = ["visit": ["contact_id": "contact"]]
        for user in users {
            phones.append(try Self.open(gateway, user))
            isLost.append(false)
        }
    }

    private static func open(_ gateway: MockGateway, _ user: String, file: String? = nil) throws -> MockPhone {
        try MockPhone(gateway, user: user, file: file) { $0.pageLimit = 7 }
    }

    // MARK: - Steps

    func step() async throws {
        let index = Int.random(in: 0..<phones.count, using: &random)
        guard !isLost[index] else { return }
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<50: try await edit(index)
        case 50..<78: await synchronize(index)
        case 78..<86: try await decide(index)
        case 86..<90: try restart(index)
        case 90..<93: try takeBackup(index)
        case 93..<95: try await restore(index)
        case 95..<97: gatewayBackup = gateway.backup()
        case 97: restoreGateway()
        case 98 where phones.count < 7: try twin(index)
        case 99 where isLost.count(where: { $0 }) < 1: lose(index)
        default: break
        }
    }

    private func edit(_ index: Int) async throws {
        counter += 1
        let mark = "\(index)-\(counter)"
        let phone = phones[index]
        let (kind, pick) = (Int.random(in: 0..<14, using: &random), random.next())
        let id: UUID?
        do {
            id = try await phone.pool.write { [client = phone.client] db -> UUID? in
                // the mark of a row is the same in each run of a seed; its id is not
                func any<Record: FetchableRecord & TableRecord>(_ type: Record.Type, by mark: String) throws -> Record?
                {
                    let count = try type.fetchCount(db)
                    guard count > 0 else { return nil }
                    return try type.order(Column(mark)).limit(1, offset: Int(pick % UInt64(count))).fetchOne(db)
                }
                func anyContact() throws -> Contact? { try any(Contact.self, by: "name") }
                func anyVisit() throws -> Visit? { try any(Visit.self, by: "title") }
                switch kind {
                case 0, 1: return try client.insert(Contact(name: mark), in: db)
                case 2, 3, 4, 5:
                    guard var contact = try anyContact() else { return nil }
                    contact.phone = mark
                    return try client.update(contact, in: db)
                case 6, 7:
                    guard let contact = try anyContact() else { return nil }
                    return try client.insert(Visit(contactID: contact.id, title: mark), in: db)
                case 8, 9, 10:
                    guard var visit = try anyVisit() else { return nil }
                    visit.title = mark
                    return try client.update(visit, in: db)
                case 11, 12:
                    guard let visit = try anyVisit() else { return nil }
                    return try client.delete(visit, in: db)
                default:
                    // the app's foreign key deletes the contact's visits, too
                    guard let contact = try anyContact() else { return nil }
                    return try client.delete(contact, in: db)
                }
            }
        } catch is SluiceError {
            // this row remained after its create was discarded
            return
        }
        if let id { writes[id] = Write(phone: index, number: counter) }
    }

    private func synchronize(_ index: Int) async {
        let failures: [MockGateway.Reaction?] = [
            nil, nil, nil, .lostAnswer, .cutConnection, .status(502), .text("<html>"), .json([:]), .status(403),
        ]
        if let failure = failures.randomElement(using: &random).flatMap({ $0 }) {
            let kinds: [MockGateway.Request.Kind?] = [nil, .push, .pull, .decision, .registration]
            let kind = kinds.randomElement(using: &random).flatMap { $0 }
            gateway.fail(failure, on: kind, times: Int.random(in: 1...2, using: &random))
        }
        let interruption = Interruption(
            after: Bool.random(using: &random) ? Int.random(in: 1...40, using: &random) : .max
        )
        await interruption.run(phones[index], turns: Int.random(in: 1...2, using: &random))
        gateway.recover()
    }

    /// A person settles a write that a phone shows.
    private func decide(_ index: Int) async throws {
        let client = phones[index].client
        let failed = try await phones[index].pool.read { try FailedWrite.fetchAll($0) }
            .sorted { writes[$0.id]?.number ?? 0 < writes[$1.id]?.number ?? 0 }
        guard let write = failed.randomElement(using: &random) else { return }
        do {
            switch (write.reason, Int.random(in: 0..<3, using: &random)) {
            case (.conflict, 0): try await client.resolve(write.id, .server)
            case (.conflict, 1): try await client.resolve(write.id, .client)
            case (_, 0): try await client.retry(write.id)
            default: try await client.discard(write.id, dependents: Bool.random(using: &random) ? .discard : .keep)
            }
        } catch is SluiceError {
            // the write's state has changed
        }
    }

    private func restart(_ index: Int) throws {
        try phones[index].pool.close()
        phones[index] = try Self.open(gateway, users[user(index)], file: phones[index].file)
    }

    /// Returns the user of a phone; a twin has the user of the phone that it was set up from.
    private func user(_ index: Int) -> Int { index < users.count ? index : twins[index - users.count] }
    private var twins: [Int] = []

    private func copy(_ index: Int) throws -> String {
        let file = FileManager.default.temporaryDirectory.appending(path: "backup-\(UUID().uuidString).sqlite").path
        let copy = try DatabaseQueue(path: file)
        try phones[index].pool.backup(to: copy)
        try copy.close()
        return file
    }

    private func takeBackup(_ index: Int) throws { backups[index] = try copy(index) }

    private func restore(_ index: Int) async throws {
        guard let backup = backups.removeValue(forKey: index) else { return }
        try phones[index].pool.close()
        phones[index] = try Self.open(gateway, users[user(index)], file: backup)
        gatewayBackup = nil
        try await noteForgotten(index)
    }

    private func noteForgotten(_ index: Int) async throws {
        let known = Set(
            try await phones[index].pool.read { try String.fetchAll($0, sql: "SELECT id FROM sluice_mutations") }
        )
        for (id, write) in writes where write.phone == index && !known.contains(id.wire) { forgotten.insert(id) }
    }

    private func restoreGateway() {
        guard let backup = gatewayBackup else { return }
        gateway.restore(backup)
        gatewayBackup = nil
        // a phone that is restored beyond its gateway's backup has neither the new ids nor the old ones
        backups = [:]
    }

    /// A second phone is set up from a copy of the first, which stays in use.
    private func twin(_ index: Int) throws {
        let file = try copy(index)
        twins.append(user(index))
        phones.append(try Self.open(gateway, users[user(index)], file: file))
        isLost.append(false)
    }

    private func lose(_ index: Int) {
        isLost[index] = true
        for (id, write) in writes where write.phone == index { forgotten.insert(id) }
    }

    // MARK: - The end

    func settle() async throws {
        gateway.recover()
        var quiet = 0
        for round in 0..<1_000 where quiet < 3 {
            var left = 0
            for index in phones.indices where !isLost[index] {
                let status = await phones[index].client.syncOnce(deadline: .seconds(1))
                left += status.pending + status.failed + status.conflicts
                for _ in 0..<10 { try await decide(index) }
            }
            quiet = left == 0 ? quiet + 1 : 0
            if round % 50 == 49 { note("phones in memory: \(left) writes are not settled") }
        }
    }

    func complaints() async throws -> [String] {
        var found: [String] = []
        var (first, firstWaiting): ([String]?, [String]?)
        for index in phones.indices where !isLost[index] {
            let status = phones[index].client.currentStatus
            // a visit whose contact was lost with a phone, or got another id, is held on all phones
            let held = try await phones[index].pool.read { try HeldRow.fetchAll($0) }
            let isHeldForGood = held.allSatisfy { $0.entityType == "visit" && $0.waitsFor != nil }
            let left = status.pending + status.failed + status.conflicts
            if left > 0 || !isHeldForGood || status.snapshotRows != nil || status.lastError != nil {
                found.append("phone \(index): \(status), held \(held)")
            }
            let shown = try await shown(index)
            if let first, first != shown {
                let (less, more) = (Set(first).subtracting(shown), Set(shown).subtracting(first))
                found.append("phone \(index) lacks \(less.sorted()) and has \(more.sorted())")
                for row in less.union(more).sorted() {
                    found.append(try await trace(String(row.split(separator: " ")[1]), index))
                }
            }
            first = first ?? shown
            let waiting = held.map { $0.document?["title"]?.string ?? "?" }.sorted()
            if let firstWaiting, firstWaiting != waiting {
                found.append("phone \(index) holds \(waiting) and not \(firstWaiting)")
                for mark in Set(firstWaiting).symmetricDifference(waiting).sorted() {
                    found.append(try await trace(mark, index))
                }
            }
            firstWaiting = firstWaiting ?? waiting
        }
        let entities = (gateway.entities(of: "contact") + gateway.entities(of: "visit")).filter { !$0.isDeleted }
        let alive = entities.filter { isAlive($0) }
        if alive.count != first?.count ?? 0 { found.append("the gateway has \(alive.count) entities") }
        for (id, write) in writes where !forgotten.contains(id) && !isLost[write.phone] {
            switch try await phones[write.phone].client.state(of: id) {
            case .applied(_, _, isVisible: true), .discarded: break
            case let state:
                let trace = try await trace(write.mark, write.phone, id)
                found.append("\(write.mark) of phone \(write.phone) is \(String(describing: state)): \(trace)")
            }
        }
        return found
    }

    /// Whether the entity to which a visit belongs still exists.
    private func isAlive(_ entity: MockGateway.Entity) -> Bool {
        guard let contact = entity.document["contact_id"] else { return true }
        return gateway.entities(of: "contact").contains { $0.id == contact && !$0.isDeleted }
    }

    /// Returns a phone's data about the entities with a mark, about the contacts of these visits, and about their
    /// writes.
    private func trace(_ mark: String, _ index: Int, _ write: UUID? = nil) async throws -> String {
        let columns = [
            "sluice_mutations":
                "id, sequence_number, operation, status, is_shown, is_outdated, version, payload, error",
            "sluice_base": "version, is_deleted, generation, document",
            "sluice_id_mappings": "client_id, server_id, status",
            "sluice_held": "reason, waits_for_key",
        ]
        let rows = try await phones[index].pool.read { db -> [String] in
            let visits = try Visit.filter(Column("title") == mark).fetchAll(db)
            var keys = Set(visits.flatMap { [$0.id.wire, $0.contactID.wire] })
            keys.formUnion(
                try Contact.filter(Column("name") == mark || Column("phone") == mark).fetchAll(db).map(\.id.wire)
            )
            keys.formUnion(
                try String.fetchAll(
                    db,
                    sql: """
                        SELECT key FROM sluice_mutations WHERE payload LIKE ?1 OR id = ?2
                        UNION SELECT key FROM sluice_base WHERE document LIKE ?1
                        UNION SELECT document ->> 'contact_id' FROM sluice_base
                        WHERE document LIKE ?1 AND document ->> 'contact_id' IS NOT NULL
                        """,
                    arguments: ["%\"\(mark)\"%", write?.wire]
                )
            )
            let list = keys.sorted().map { "'\($0)'" }.joined(separator: ", ")
            let ids = keys.compactMap(UUID.init(text:))
            let tables = try columns.sorted { $0.key < $1.key }.flatMap { table, columns in
                try Row.fetchAll(db, sql: "SELECT key, \(columns) FROM \(table) WHERE key IN (\(list)) ORDER BY key")
                    .map { "\(table): \($0)" }
            }
            return try Contact.filter(keys: ids).fetchAll(db).map { "\($0)" }
                + Visit.filter(keys: ids).fetchAll(db).map { "\($0)" } + tables
        }
        return rows.joined(separator: "\n    ")
    }

    /// The rows, without the phone's own keys. A held row is missing, or has the values of an earlier document.
    private func shown(_ index: Int) async throws -> [String] {
        try await phones[index].pool.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT 'contact ' || name || ' ' || coalesce(phone, '') FROM contact
                    UNION ALL
                    SELECT 'visit ' || v.title || ' of ' || c.name FROM visit v JOIN contact c ON c.id = v.contactID
                    WHERE NOT EXISTS (
                        SELECT 1 FROM sluice_held
                        WHERE entity_type = 'visit' AND replace(key, '-', '') = lower(hex(v.id)))
                    ORDER BY 1
                    """
            )
        }
    }
}

/// Cancels a synchronization after a number of requests and transactions.
private final class Interruption: TransactionObserver, Sendable {
    private struct State {
        var left: Int
        var task: Task<Void, Never>?
    }

    private let state: Locked<State>

    init(after count: Int) { state = Locked(State(left: count)) }

    /// Runs turns of a phone, without a pause between them.
    func run(_ phone: MockPhone, turns: Int) async {
        phone.gateway.onRequest { [self] _ in
            count()
            return nil
        }
        phone.pool.add(transactionObserver: self)
        let task = state.withLock { state in
            let task = Task {
                for _ in 0..<turns where !Task.isCancelled { await phone.client.worker.runOnce(until: .now) }
            }
            state.task = task
            return task
        }
        await task.value
        phone.pool.remove(transactionObserver: self)
        phone.gateway.onRequest(nil)
    }

    private func count() {
        let task = state.withLock { state in
            state.left -= 1
            return state.left == 0 ? state.task : nil
        }
        task?.cancel()
    }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { false }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseDidCommit(_ db: Database) { count() }
    func databaseDidRollback(_ db: Database) {}
}
