import Foundation
import GRDB
import SluiceClient
import Testing

/// Six phones of two users edit the same things, offline and behind a network that loses, cuts and doubles: in the end
/// all of them show the same, and every write took effect once or is there to be seen.
@Suite struct ConvergenceTests {
    @Test(arguments: [UInt64.random(in: 1...1_000_000)])
    func `six phones behind a bad network end up with the same`(_ seed: UInt64) async throws {
        let steps = ProcessInfo.processInfo.environment["SLUICE_PHONES_STEPS"].flatMap { Int($0) } ?? 200
        let seed = ProcessInfo.processInfo.environment["SLUICE_PHONES_SEED"].flatMap { UInt64($0) } ?? seed
        note("phones: seed \(seed), \(steps) steps")
        let fleet = try await Fleet(seed: seed)
        try await fleet.run(steps: steps)
        try await fleet.settle()
        let complaints = try await fleet.complaints()
        #expect(complaints == [], "seed \(seed)")
    }
}

/// A generator whose numbers are the same for a seed.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}

/// What six phones do.
private final class Fleet {
    private static let entities = [Contact.sync, Visit.sync, Folder.sync, Job.sync]
    private let gateway: TestGateway
    private let organization: UUID
    private let proxy: FaultyProxy
    private var random: SplitMix
    private var phones: [TestPhone] = []
    private var counter = 0
    /// Every write that was committed on a phone, with what it was.
    private var writes: [(phone: Int, id: UUID, what: String)] = []

    init(seed: UInt64) async throws {
        random = SplitMix(state: seed)
        gateway = try await TestGateway.start()
        organization = try await gateway.makeOrganization()
        try await gateway.register("folder", #"{"id_space":"device"}"#, in: organization)
        try await gateway.register(
            "task",
            #"{"id_space":"device","relations":{"folderId":"folder"}}"#,
            in: organization
        )
        proxy = try FaultyProxy(to: gateway.url.port ?? 0, rate: 0.25, SplitMix(state: seed &+ 1))
        let users = [UUID(), UUID()]
        for index in 0..<6 {
            phones.append(try await phone(user: users[index % 2], file: nil))
        }
    }

    private func phone(user: UUID, file: URL?) async throws -> TestPhone {
        try await TestPhone(
            gateway,
            organization: organization,
            user: user,
            entities: Self.entities,
            file: file,
            through: proxy.url
        ) { $0.pageLimit = 20 }
    }

    func run(steps: Int) async throws {
        for _ in 0..<steps {
            let index = Int.random(in: 0..<phones.count, using: &random)
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<60: try await edit(index)
            case 60..<90:
                _ = await phones[index].client.syncOnce(
                    deadline: .milliseconds(Int.random(in: 1...300, using: &random))
                )
            case 90..<94: try await decide(index)
            default: phones[index] = try await phone(user: phones[index].user, file: phones[index].file)
            }
        }
    }

    // MARK: - Edits

    private func edit(_ index: Int) async throws {
        counter += 1
        let (label, choice, pick) = (
            "\(index)-\(counter)", Int.random(in: 0..<9, using: &random),
            UInt64.random(in: 0...UInt64.max, using: &random)
        )
        let made = try await phones[index].write { db, client in try Self.edit(db, client, label, choice, pick) }
        if let (id, what) = made { writes.append((index, id, what)) }
    }

    private static func any<Record: FetchableRecord & TableRecord>(_ type: Record.Type, _ db: Database, _ pick: UInt64)
        throws -> Record?
    {
        let count = try type.fetchCount(db)
        guard count > 0 else { return nil }
        return try type.order(Column("id")).limit(1, offset: Int(pick % UInt64(count))).fetchOne(db)
    }

    private static func edit(_ db: Database, _ client: SluiceClient, _ label: String, _ choice: Int, _ pick: UInt64)
        throws -> (UUID, String)?
    {
        func enqueue(_ write: Write, _ what: String) throws -> (UUID, String)? {
            try client.enqueue(write, in: db).map { ($0, what) }
        }
        switch choice {
        case 0:
            let contact = Contact(name: "c" + label)
            try contact.insert(db)
            return try enqueue(.create(contact), "create contact")
        case 1, 2:
            guard var contact = try any(Contact.self, db, pick) else { return nil }
            if choice == 1 { contact.name = "n" + label } else { contact.phone = "p" + label }
            try contact.update(db)
            return try enqueue(.update(contact), "update contact")
        case 3:
            guard let contact = try any(Contact.self, db, pick) else { return nil }
            var visit = Visit(contactID: contact.id, title: "v" + label, amount: "1.10")
            visit.details = #"{"guests":["\#(contact.id.uuidString.lowercased())"]}"#
            try visit.insert(db)
            return try enqueue(.create(visit), "create visit")
        case 4, 5:
            guard var visit = try any(Visit.self, db, pick), let contact = try any(Contact.self, db, pick >> 7) else {
                return nil
            }
            if choice == 4 { visit.title = "t" + label } else { visit.contactID = contact.id }
            try visit.update(db)
            return try enqueue(.update(visit), "update visit")
        case 6:
            guard let visit = try any(Visit.self, db, pick), pick % 3 == 0 else { return nil }
            try visit.delete(db)
            return try enqueue(.delete(visit), "delete visit")
        case 7:
            if pick % 3 == 0 {
                var folder = Folder(name: "f" + label)
                try folder.insert(db)
                return try enqueue(.create(folder), "create folder")
            }
            var job = Job(text: "j" + label, folderID: try any(Folder.self, db, pick)?.id)
            try job.insert(db)
            return try enqueue(.create(job), "create task")
        default:
            guard var job = try any(Job.self, db, pick) else { return nil }
            job.text = "k" + label
            job.folderID = try any(Folder.self, db, pick >> 9)?.id ?? job.folderID
            try job.update(db)
            return try enqueue(.update(job), "update task")
        }
    }

    /// A person decides about something that did not take effect, as the phone shows it: also offline.
    private func decide(_ index: Int) async throws {
        let client = phones[index].client
        guard
            let write = try await phones[index].pool.read({ try FailedWrite.fetchAll($0) }).randomElement(
                using: &random
            )
        else { return }
        do {
            switch (write.reason, Int.random(in: 0..<3, using: &random)) {
            case (.conflict, 0): try await client.resolve(write.id, .server)
            case (.conflict, 1): try await client.resolve(write.id, .client)
            default: try await client.discard(write.id, dependents: Bool.random(using: &random) ? .discard : .keep)
            }
        } catch is SluiceError {
            // it is no longer what it was
        }
    }

    // MARK: - The end

    /// The network is good, and people decide until nothing is left to decide.
    func settle() async throws {
        proxy.set(rate: 0)
        var quietRounds = 0
        for round in 0..<60 {
            var isQuiet = true
            for (index, phone) in phones.enumerated() {

                let status = await phone.client.syncOnce(deadline: .seconds(5))

                if status.pending > 0 || status.failed > 0 || status.conflicts > 0 { isQuiet = false }
                if round % 2 == 0 { for _ in 0..<10 { try await decide(index) } }
            }
            quietRounds = isQuiet ? quietRounds + 1 : 0
            // what the last phone of a round pushed is shown by the others in the next one
            if quietRounds == 2 { return }
        }
    }

    /// Everything that is not as it should be.
    func complaints() async throws -> [String] {
        var complaints: [String] = []
        let graphs = try await phones.asyncMap { try await Self.graph($0) }
        for (index, graph) in graphs.enumerated() where graph != graphs[0] {
            let missing = graphs[0].subtracting(graph).sorted().prefix(5)
            let more = graph.subtracting(graphs[0]).sorted().prefix(5)
            complaints.append("phone \(index) lacks \(missing) and has \(more)")
            if ProcessInfo.processInfo.environment["SLUICE_PHONES_KEEP"] != nil {
                note(
                    "phone 0: \(phones[0].file.path) \(phones[0].user)\nphone \(index): \(phones[index].file.path) \(phones[index].user)"
                )
            }
        }
        for (index, phone) in phones.enumerated() {
            let status = phone.client.currentStatus
            if status.lastError != nil || status.held > 0 || status.pending > 0 || status.failed + status.conflicts > 0
            {
                complaints.append("phone \(index): \(status)")
            }
        }
        for write in writes {
            let state = try await phones[write.phone].client.state(of: write.id)
            switch state {
            case .applied(_, _, true), .discarded: break
            default:
                complaints.append("\(write.what) \(write.id) of phone \(write.phone) is \(String(describing: state))")
            }
        }
        return complaints
    }

    /// What a phone shows, in words that are the same on all of them: no key of the phone's own.
    private static func graph(_ phone: TestPhone) async throws -> Set<String> {
        try await phone.pool.read { db in
            var graph: Set<String> = []
            func add(_ fact: String) { graph.insert(graph.contains(fact) ? fact + " again" : fact) }
            for row in try Row.fetchAll(
                db,
                sql: """
                    SELECT v.title, v.amount, c.name AS contact, v.details, v.id FROM visit v JOIN contact c ON c.id = v.contactID
                    """
            ) {
                let guests = try JSON(parsing: row["details"] as String? ?? "{}")["guests"]?.array ?? []
                let names = try guests.map {
                    try Contact.fetchOne(db, key: UUID(uuidString: $0.string ?? ""))?.name ?? "nobody"
                }
                add(
                    "visit \(row["title"] as String) \(row["amount"] as String? ?? "") of \(row["contact"] as String), guests \(names)"
                )
            }
            for contact in try Contact.fetchAll(db) { add("contact \(contact.name) \(contact.phone ?? "")") }
            for folder in try Folder.fetchAll(db) { add("folder \(folder.name)") }
            for row in try Row.fetchAll(
                db,
                sql: "SELECT j.text, f.name FROM job j LEFT JOIN folder f ON f.id = j.folderID"
            ) {
                add("task \(row[0] as String) in \(row[1] as String? ?? "none")")
            }
            return graph
        }
    }
}

extension Array {
    func asyncMap<Result>(_ transform: (Element) async throws -> Result) async rethrows -> [Result] {
        var results: [Result] = []
        for element in self { results.append(try await transform(element)) }
        return results
    }
}

/// Tells at once how far a long test has come.
func note(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }
