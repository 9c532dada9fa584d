import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// Five phones of two users and a gateway in memory: random edits, deletions of parents, lost answers, restarts,
/// restored phones and gateways, a lost phone, and two phones from one backup. In the end all phones show the same
/// data, and every write is accounted for.
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
        #expect(complaints.isEmpty, "seed \(seed), \(steps) steps: \(complaints.joined(separator: "\n"))")
    }
}

/// The phones, and all writes that were committed on them.
private final class MockFleet {
    private struct Write {
        let phone: Int
        let mark: String
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
                func any<Record: FetchableRecord & TableRecord>(_ type: Record.Type) throws -> Record? {
                    let count = try type.fetchCount(db)
                    guard count > 0 else { return nil }
                    return try type.order(Column("id")).limit(1, offset: Int(pick % UInt64(count))).fetchOne(db)
                }
                switch kind {
                case 0, 1: return try client.insert(Contact(name: mark), in: db)
                case 2, 3, 4, 5:
                    guard var contact = try any(Contact.self) else { return nil }
                    contact.phone = mark
                    return try client.update(contact, in: db)
                case 6, 7:
                    guard let contact = try any(Contact.self) else { return nil }
                    return try client.insert(Visit(contactID: contact.id, title: mark), in: db)
                case 8, 9, 10:
                    guard var visit = try any(Visit.self) else { return nil }
                    visit.title = mark
                    return try client.update(visit, in: db)
                case 11, 12:
                    guard let visit = try any(Visit.self) else { return nil }
                    return try client.delete(visit, in: db)
                default:
                    // the app's foreign key deletes the contact's visits, too
                    guard let contact = try any(Contact.self) else { return nil }
                    return try client.delete(contact, in: db)
                }
            }
        } catch is SluiceError {
            // this row remained after its create was discarded
            return
        }
        if let id { writes[id] = Write(phone: index, mark: mark) }
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
        await phones[index].client.syncOnce(deadline: .milliseconds(Int.random(in: 1...200, using: &random)))
        gateway.recover()
    }

    /// A person settles a write that a phone shows.
    private func decide(_ index: Int) async throws {
        let client = phones[index].client
        let failed = try await phones[index].pool.read { try FailedWrite.fetchAll($0) }
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
        var first: [String]?
        for index in phones.indices where !isLost[index] {
            let status = phones[index].client.currentStatus
            // a visit whose contact was lost with a phone is held on all phones
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
                for row in less.union(more) {
                    let mark = row.split(separator: " ")[1]
                    found.append(
                        try await trace(
                            "key IN (SELECT key FROM sluice_mutations WHERE payload LIKE '%\(mark)\"%'"
                                + " UNION SELECT key FROM sluice_base WHERE document LIKE '%\(mark)\"%')",
                            index
                        )
                    )
                }
            }
            first = first ?? shown
        }
        let entities = (gateway.entities(of: "contact") + gateway.entities(of: "visit")).filter { !$0.isDeleted }
        let alive = entities.filter { isAlive($0) }
        if alive.count != first?.count ?? 0 { found.append("the gateway has \(alive.count) entities") }
        for (id, write) in writes where !forgotten.contains(id) && !isLost[write.phone] {
            switch try await phones[write.phone].client.state(of: id) {
            case .applied(_, _, isVisible: true), .discarded: break
            case let state:
                let trace = try await trace(
                    "key = (SELECT key FROM sluice_mutations WHERE id = '\(id.wire)')",
                    write.phone
                )
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

    /// Returns a phone's data about an entity and its writes.
    private func trace(_ condition: String, _ index: Int) async throws -> String {
        let columns = [
            "sluice_mutations": "sequence_number, operation, status, is_shown, is_outdated, version, payload, error",
            "sluice_base": "version, is_deleted, generation, document",
            "sluice_id_mappings": "client_id, server_id, status",
            "sluice_held": "reason, waits_for_key",
        ]
        let rows = try await phones[index].pool.read { db -> [String] in
            try columns.flatMap { table, columns in
                try Row.fetchAll(db, sql: "SELECT key, \(columns) FROM \(table) WHERE \(condition)").map(\.description)
            }
        }
        return rows.joined(separator: "\n    ")
    }

    /// The rows, without the phone's own keys.
    private func shown(_ index: Int) async throws -> [String] {
        try await phones[index].pool.read { db in
            try String.fetchAll(
                db,
                sql: """
                    SELECT 'contact ' || name || ' ' || coalesce(phone, '') FROM contact
                    UNION ALL
                    SELECT 'visit ' || v.title || ' of ' || c.name FROM visit v JOIN contact c ON c.id = v.contactID
                    ORDER BY 1
                    """
            )
        }
    }
}
