import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore
@testable import TransferFeature

/// Imports and exports of organizations' entities.
@Suite struct TransferTests {
    // MARK: - Round trips

    @Test(arguments: [nil, TestKeys.first], [UInt64(1), 2, 3])
    func `merges two organizations into a third, with exact numbers`(masterKeys: String?, seed: UInt64) async throws {
        var random = SeededRandom(seed)
        let gateway = try await Gateway(masterKeys: masterKeys)
        var all: Set<String> = []
        var file = ""
        for name in ["a", "b"] {
            let phone = Phone(gateway, try await gateway.organizationWithDiaries())
            try await phone.live(through: &random, name)
            let text = try await gateway.exported(phone.organization.id) { $0.hasTombstones = true }
            all.formUnion(try Self.states(text))
            file += text
        }
        let third = try await gateway.organizationWithDiaries()
        let (report, refusals) = try await gateway.imported(file, into: third.id)
        #expect(refusals.isEmpty && report.applied == report.lines && report.lines == all.count)
        let again = try await gateway.exported(third.id) { $0.hasTombstones = true }
        #expect(try Set(Self.states(again)) == all)

        // no line changes an entity twice: from the same source its id is known; from another source its state is the
        // stored one
        let end = try await gateway.feedEnd(third.id)
        let repeated = try await gateway.imported(file, into: third.id).report
        #expect(repeated.duplicates == repeated.lines && repeated.applied == 0)
        let other = try await gateway.imported(file, into: third.id, source: "other").report
        #expect(other.applied == other.lines)
        #expect(try await gateway.feedEnd(third.id) == end)
    }

    /// Returns the last state of each entity in the lines, without position and time.
    static func states(_ text: String) throws -> [String] {
        var states: [String: String] = [:]
        for line in text.split(separator: "\n") {
            let value = try JSONTree(parsing: Array(line.utf8)).root
            let members = ["entity_type", "id", "owner", "deleted", "private", "document"]
                .map { value[$0]?.text ?? "-" }
            states[members[0] + members[1]] = members.joined(separator: " ")
        }
        return Array(states.values)
    }

    @Test func `private entities stay private`() async throws {
        let gateway = try await Gateway()
        let one = Phone(gateway, try await gateway.organizationWithDiaries())
        try await one.push([one.diary(#"{"secret":1}"#)])
        let file = try await gateway.exported(one.organization.id)
        // if the type does not exist yet or is not private there, private lines are refused, so nothing becomes visible
        // to all users
        let open = try await gateway.organization()
        let (report, refusals) = try await gateway.imported(file, into: open.id)
        #expect(report.refused == 1 && refusals[0].problem.errors.map(\.pointer) == ["/private"])
        #expect(try await gateway.exported(open.id) == "")

        let other = try await gateway.organizationWithDiaries()
        #expect(try await gateway.imported(file, into: other.id).report.applied == 1)
        #expect(try await Phone(gateway, other, user: one.user).pull().count == 1)
        #expect(try await Phone(gateway, other).pull().isEmpty)
    }

    @Test func `entities in channels are not imported for the whole organization`() async throws {
        let gateway = try await Gateway()
        let one = Phone(gateway, try await gateway.organizationWithDiaries())
        try await one.push([one.diary(#"{"secret":1}"#)])
        let update = try EntityTypeUpdate(body: Array(#"{"visibility":"channels","channels":["user/{owner}"]}"#.utf8))
        _ = try await gateway.store.administration.putEntityType("diary", in: one.organization.id, update)
        let file = try await gateway.exported(one.organization.id)
        #expect(file.contains(#""private":true"#))
        let open = try await gateway.organization()
        let (report, refusals) = try await gateway.imported(file, into: open.id)
        #expect(report.refused == 1 && refusals[0].problem.errors.map(\.pointer) == ["/private"])
        _ = try await gateway.store.administration.putEntityType("diary", in: open.id, update)
        #expect(try await gateway.imported(file, into: open.id).report.applied == 1)
        #expect(try await Phone(gateway, open).pull().isEmpty)
    }

    @Test func `imports affect only their organization`() async throws {
        let gateway = try await Gateway()
        let (north, south) = (try await gateway.organization(), try await gateway.organization())
        let line = #"{"entity_type":"task","id":1,"document":{"a":1}}"# + "\n"
        #expect(try await gateway.imported(line, into: north.id).report.applied == 1)
        #expect(try await gateway.exported(south.id) == "")
        // an id of an event is used in one organization, and can be used in another
        #expect(try await gateway.imported(line, into: south.id).report.applied == 1)
        let mine = try await gateway.exported(north.id)
        let theirs = gateway.store.export(of: south.id, EntityExport.Filter())
        #expect(throws: Problem.self) { try theirs.cursor(in: Array(mine.utf8.dropLast())) }
    }

    // MARK: - Imports

    @Test func `an interrupted import resumes where it stopped`() async throws {
        struct CutOff: Error {}
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let lines = (0..<200).map { #"{"entity_type":"task","id":\#($0),"document":{"n":\#($0)}}"# }
        let text = lines.joined(separator: "\n")
        for part in [60, 3, 120] {
            await #expect(throws: CutOff.self) {
                _ = try await gateway.imported(
                    text,
                    into: organization.id,
                    passed: { report in
                        if report.applied >= part { throw CutOff() }
                    }
                )
            }
        }
        let report = try await gateway.imported(text, into: organization.id).report
        #expect(report.duplicates >= 120 && report.applied + report.duplicates == 200)
        let found = try await gateway.exported(organization.id)
        #expect(try Self.states(found).count == 200 && found.split(separator: "\n").count == 200)
        #expect(try await gateway.feedEnd(organization.id) == 200, "each line was written once")
    }

    @Test func `reports refused lines with their numbers and pointers, and applies the others`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organizationWithDiaries(#"{"entity_types":"registered"}"#)
        let text = """
            {"entity_type":"diary","id":"\(UUID().lowercased)","document":{}}
            nonsense

            {"entity_type":"unheard","id":1,"document":{}}
            {"entity_type":"task","id":1,"document":{},"version":-1}\r
            {"entity_type":"task","id":2,"operation":"patch","document":{}}
            {"entity_type":"task","id":3,"document":{}}\r
            {"entity_type":"task","id":4,"document":{"long":"\(String(repeating: "x", count: 3_000_000))"}}
            {"entity_type":"task","id":5,"document":{}}
            """
        let (report, refusals) = try await gateway.imported("\u{feff}" + text, into: organization.id)
        let reported = refusals.sorted { $0.line < $1.line }
            .map { "\($0.line) \($0.problem.code.rawValue) \($0.problem.errors.map(\.pointer))" }
        #expect(
            reported == [
                #"1 validation_failed ["/owner"]"#, "2 invalid_json []", #"4 validation_failed ["/entity_type"]"#,
                #"5 validation_failed ["/version"]"#, #"6 validation_failed ["/operation"]"#,
                #"8 payload_too_large [""]"#,
            ]
        )
        #expect(report.lines == 8 && report.applied == 2 && report.refused == 6)
        let corrected = text.replacing(#","version":-1"#, with: "")
        let again = try await gateway.imported(corrected, into: organization.id).report
        #expect(again.applied == 1 && again.duplicates == 2 && again.refused == 5)
    }

    @Test func `a dry run reports the refusals and writes nothing`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organizationWithDiaries()
        let text = """
            {"entity_type":"task","id":1,"document":{}}
            {"entity_type":"task","id":1,"operation":"patch","document":{}}
            {"entity_type":"diary","id":"\(UUID().lowercased)","document":{}}
            {"entity_type":"diary","id":"no uuid","owner":"\(UUID().lowercased)","document":{}}
            """
        let (report, refusals) = try await gateway.imported(text, into: organization.id) { $0.isDryRun = true }
        #expect(report.applied == 2 && refusals.map(\.line) == [3, 4])
        #expect(try await gateway.exported(organization.id) == "")
        #expect(try await gateway.count("ingested_events", of: organization.id) == 0)
    }

    @Test func `filters omit lines`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let text = """
            {"entity_type":"task","id":1,"document":{},"occurred_at":"2026-11-20T07:00:00Z"}
            {"entity_type":"task","id":2,"document":{},"occurred_at":"2026-11-21T07:00:00Z"}
            {"entity_type":"note","id":3,"document":{},"occurred_at":"2026-11-21T07:00:00Z"}
            """
        let report = try await gateway.imported(text, into: organization.id) {
            $0.types = ["task"]
            $0.updatedSince = Timestamp(rfc3339: "2026-11-21T00:00:00Z")
        }.report
        #expect(report.applied == 1 && report.leftOut == 2)
        gateway.clock.advance(seconds: 60)
        let since = gateway.clock.now
        _ = try await gateway.imported(text, into: organization.id)
        let found = try await gateway.exported(organization.id) {
            $0.types = ["note", "task"]
            $0.updatedSince = since
        }
        #expect(try Self.states(found).count == 2)
        #expect(try await gateway.exported(organization.id) { $0.types = ["note"] }.split(separator: "\n").count == 1)
    }

    @Test func `an older version does not overwrite a newer one`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let source = EventSource(gateway, organization)
        #expect(try await source.results([EventSource.event("a", "1", version: 7)]) == ["applied"])
        let old = #"{"entity_type":"task","id":1,"version":6,"document":{"title":"old"}}"#
        let new = #"{"entity_type":"task","id":1,"version":8,"document":{"title":"new"}}"#
        #expect(try await gateway.imported(old + "\n" + new, into: organization.id).report.stale == 1)
        #expect(try await gateway.exported(organization.id).contains("new"))
    }

    @Test func `an import restores nothing of an erased user`() async throws {
        let gateway = try await Gateway()
        let one = Phone(gateway, try await gateway.organizationWithDiaries())
        for type in ["task", "paper"] {
            let body = type == "paper" ? #"{"on_erase":"blank_owner"}"# : "{}"
            _ = try await gateway.store.administration.putEntityType(
                type,
                in: one.organization.id,
                EntityTypeUpdate(body: Array(body.utf8))
            )
        }
        gateway.store.catalog.invalidate(one.organization.id)
        try await one.push([one.diary("{}"), one.create("task"), one.create("paper")])
        let file = try await gateway.exported(one.organization.id)
        try await one.execute(
            """
            INSERT INTO user_erasures (organization_id, user_hash, started_at, state, finished_at)
            SELECT '\(one.organization.id)', sha256(uuid_send('\(one.organization.id)') || uuid_send('\(one.user)')),
                now(), 'done', now()
            """
        )
        let again = file.replacing(#""document""#, with: #""version":9,"document""#)
        let dry = try await gateway.imported(again, into: one.organization.id) { $0.isDryRun = true }
        let (report, refusals) = try await gateway.imported(again, into: one.organization.id)
        #expect(report.refused == 2 && report.applied == 1 && dry.report.refused == 2)
        #expect(Set(refusals.flatMap { $0.problem.errors.map(\.pointer) }) == ["/owner"])
        // in another organization the same id is another user
        let other = try await gateway.organizationWithDiaries()
        #expect(try await gateway.imported(file, into: other.id).report.applied == 3)
    }

    @Test func `a purged and a suspended organization accept nothing`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let line = #"{"entity_type":"task","id":1,"document":{}}"#
        #expect(try await gateway.imported(line, into: organization.id).report.applied == 1)
        _ = try await gateway.store.administration.put(organization.id, OrganizationUpdate(status: .suspended))
        await #expect(throws: Problem.self) {
            _ = try await gateway.imported(line, into: organization.id, source: "b")
        }
        #expect(try await gateway.store.administration.purge(organization.id))
        await #expect(throws: Problem.self) { _ = try await gateway.imported(line, into: organization.id) }
        await #expect(throws: Problem.self) { _ = try await gateway.exported(organization.id) }
        #expect(try await gateway.count("ingested_events", of: organization.id) == 0)
    }

    @Test func `ids of lines are deleted by retention even without a service token`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        _ = try await gateway.imported(#"{"entity_type":"task","id":1,"document":{}}"#, into: organization.id)
        gateway.clock.advance(seconds: 31 * 86_400)
        let pruning = IngestPruning(
            pool: gateway.store.pool,
            policy: RetentionPolicy(),
            now: { [clock = gateway.clock] in clock.now },
            failure: gateway.store.failure
        )
        try await pruning.prune()
        #expect(try await gateway.count("ingested_events", of: organization.id) == 0)
    }

    @Test func `reports a compressed file`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        var work = EntityImport(
            gateway.store.ingest,
            EntityImport.Options(organization: organization.id, source: "import"),
            limit: { 10 }
        )
        let problem = await #expect(throws: Problem.self) { _ = try await work.run { [0x1f, 0x8b, 0x08] } }
        #expect(problem?.detail.contains("zcat") == true)
    }

    // MARK: - Exports

    @Test func `an export is the state at its end, despite concurrent writes`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let ids = try await phone.push((0..<30).map { _ in phone.create() }).results.compactMap(\.serverID)
        var isFirst = true
        let text = try await gateway.exported(phone.organization.id, limit: 10) { _ in
        } passed: { _ in
            guard isFirst else { return }
            isFirst = false
            // after the first page, one of its entities is deleted and one is changed, and an entity of a later page is
            // deleted
            try await phone.push([
                phone.entry("delete", server: #""\#(ids[0])""#),
                phone.entry("update", server: #""\#(ids[1])""#, payload: #"{"title":"later"}"#),
                phone.entry("delete", server: #""\#(ids[25])""#), phone.create(),
            ])
        }
        let now = try await gateway.exported(phone.organization.id) { $0.hasTombstones = true }
        #expect(try Set(Self.states(text)) == Set(Self.states(now)))
        #expect(text.split(separator: "\n").count == 33, "the two changed entities of the first page appear twice")
        // a copy has the same entities
        let copy = try await gateway.organization()
        _ = try await gateway.imported(text, into: copy.id)
        #expect(try await Self.states(gateway.exported(copy.id)).count == 29)
    }

    @Test func `an interrupted export resumes after its last line`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let ids = try await phone.push((0..<30).map { _ in phone.create() }).results.compactMap(\.serverID)
        let whole = try await gateway.exported(phone.organization.id)
        for kept in [1, 10, 13, 29, 30] {
            let head = whole.split(separator: "\n").prefix(kept).joined(separator: "\n") + "\n"
            let rest = try await gateway.exported(phone.organization.id, behind: head)
            #expect(head + rest == whole)
        }
        // a complete export continues with later changes, including deletions
        try await phone.push([phone.entry("delete", server: #""\#(ids[3])""#)])
        let more = try await gateway.exported(phone.organization.id, behind: whole)
        #expect(more.split(separator: "\n").count == 1 && more.contains(#""deleted":true"#))
        // with other filters, the file belongs to a different export
        await #expect(throws: Problem.self) {
            _ = try await gateway.exported(phone.organization.id, behind: whole) { $0.hasTombstones = true }
        }
        // after this change, the tombstones of later deletions may have been deleted
        try await phone.execute("UPDATE feeds SET horizon = last_position")
        await #expect(throws: Problem.self) { _ = try await gateway.exported(phone.organization.id, behind: whole) }
    }

    @Test func `exports tombstones on request`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let ids = try await phone.push([phone.create(), phone.create()]).results.compactMap(\.serverID)
        try await phone.push([phone.entry("delete", server: #""\#(ids[0])""#)])
        #expect(try await gateway.exported(phone.organization.id).split(separator: "\n").count == 1)
        let all = try await gateway.exported(phone.organization.id) { $0.hasTombstones = true }
        #expect(all.split(separator: "\n").count == 2 && all.contains(#""deleted":true"#))
    }

    @Test func `omits and reports an unreadable document`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let phone = Phone(gateway, try await gateway.organization())
        try await phone.push([phone.create(), phone.create()])
        try await phone.execute(
            """
            UPDATE entities AS e SET document = o.document FROM entities o
            WHERE o.organization_id = e.organization_id AND o.feed_position = 2 AND e.feed_position = 1
            """
        )
        var left: [EntityKey] = []
        let text = try await gateway.exported(phone.organization.id, unreadable: { left.append($0) })
        #expect(text.split(separator: "\n").count == 1 && left.count == 1)
    }

    // MARK: - Plans

    @Test(.onOneServer("plans of one server"), arguments: [false, true])
    func `exports and look-ups use indexes for tables of any size`(
        isLarge: Bool
    ) async throws {
        let one = try await Phone.forwarding()
        try await one.push([one.forward("create", local: UUID())])
        if isLarge {
            try await JoinPlanTests.fill(one)
            try await one.execute(
                """
                INSERT INTO ingested_events (organization_id, source, event_id, result, received_at)
                SELECT '\(one.organization.id)', 'import', n::text, 'applied', now() FROM generate_series(1, 20000) n;
                INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id,
                    updated_by, updated_on, run_base, created_at, updated_at)
                SELECT '\(one.organization.id)', 'task', 'x' || n, 1, '{}', 20000 + n, u.id, u.id, u.id, 0, now(), now()
                FROM generate_series(1, 20000) n, LATERAL (SELECT gen_random_uuid()) u (id);
                UPDATE feeds SET last_position = 50000
                """
            )
        }
        let connection = try await one.gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        let organization = "'\(one.organization.id)'::uuid"
        let names = "ARRAY[\(organization), \(organization)], ARRAY['import', 'import'], ARRAY['1', 'y']"
        let calls: [(Statement, String)] = [
            (EntityExport.statement, "\(organization), 12000, 200, '{}', NULL, NULL, 2000000"),
            (EntityExport.statement, "\(organization), 12000, 200, '{task}', now(), 0, 2000000"),
            (IngestStatements.seen, names),
            (IngestStatements.erased, "ARRAY[\(organization)], ARRAY['\(one.user)']::uuid[]"),
            (IngestPruning.organizationsStatement, "'\(UUID.least)', 500"),
        ]
        for isAnalyzed in [false, true] {
            if isAnalyzed { try await connection.execute(script: "ANALYZE") }
            for (statement, values) in calls {
                let shape = Query.planByIndex
                for plan in try await connection.plans(of: statement, values, [shape]) {
                    #expect(!plan.contains("Seq Scan") && !plan.contains("Hash Join"), "\(plan)")
                    #expect(!plan.contains("Merge Join"), "\(plan)")
                    if isLarge { #expect(pages(in: plan) < 1_500, "\(plan)") }
                }
            }
        }
    }
}

extension Gateway {
    /// An organization with a private type, `diary`, of shared ids.
    fileprivate func organizationWithDiaries(_ settings: String = "{}") async throws -> Organization {
        let organization = try await organization(settings)
        for (type, body) in [("diary", #"{"id_space":"shared","visibility":"user"}"#), ("task", "{}")] {
            _ = try await store.administration.putEntityType(
                type,
                in: organization.id,
                EntityTypeUpdate(body: Array(body.utf8))
            )
        }
        store.catalog.invalidate(organization.id)
        return try await known(organization.id)
    }

    fileprivate func feedEnd(_ organization: UUID) async throws -> Int64 {
        let connection = try await database.connect()
        defer { connection.close() }
        let statement = Statement("", "SELECT last_position FROM feeds WHERE organization_id = '\(organization)'")
        return try await connection.run(Query(statement)).read(0, 0, as: Int64.self)
    }

    fileprivate func exported(
        _ organization: UUID,
        behind part: String? = nil,
        limit: Int = 7,
        _ change: (inout EntityExport.Filter) -> Void = { _ in },
        unreadable: (EntityKey) -> Void = { _ in },
        passed: (EntityExport.Progress) async throws -> Void = { _ in }
    ) async throws -> String {
        var filter = EntityExport.Filter()
        change(&filter)
        let export = store.export(of: organization, filter)
        let last = part?.split(separator: "\n").last.map { Array($0.utf8) }
        var bytes: [UInt8] = []
        try await export.run(
            after: try last.map(export.cursor(in:)),
            limit: { limit },
            unreadable: unreadable,
            passed: { progress, _, _ in try await passed(progress) }
        ) { bytes += $0 }
        return String(decoding: bytes, as: UTF8.self)
    }

    fileprivate func imported(
        _ text: String,
        into organization: UUID,
        source: String = "import",
        _ change: (inout EntityImport.Options) -> Void = { _ in },
        passed: @escaping (EntityImport.Report) async throws -> Void = { _ in }
    ) async throws -> (report: EntityImport.Report, refusals: [EntityImport.Refusal]) {
        var options = EntityImport.Options(organization: organization, source: source)
        change(&options)
        var refusals: [EntityImport.Refusal] = []
        var work = EntityImport(
            store.ingest,
            options,
            limit: { 9 },
            refused: { refusals.append($0) },
            pause: { _ in await Task.yield() },
            passed: { report, _, _ in try await passed(report) }
        )
        var rest = Array(text.utf8)[...]
        let report = try await work.run {
            defer { rest = rest.dropFirst(1_000) }
            return rest.isEmpty ? nil : Array(rest.prefix(1_000))
        }
        return (report, refusals)
    }
}

extension Phone {
    fileprivate func diary(_ document: String) -> Entry {
        entry("create", "diary", server: #""\#(UUID().lowercased)""#, payload: document)
    }

    /// Creates, changes and deletes entities of every kind.
    fileprivate func live(through random: inout SeededRandom, _ name: String) async throws {
        let source = EventSource(gateway, organization)
        var ids: [(String, String)] = []
        for step in 0..<40 {
            let document = Self.document(&random)
            switch Int.random(in: 0..<10, using: &random) {
            case 0...3:
                let made = try await push([create("task", payload: document)]).results[0]
                ids.append(("task", made.serverID.map { #""\#($0)""# } ?? "0"))
            case 4...5: try await push([diary(document)])
            case 6...7:
                let (number, text) = (name == "a" ? step : -step - 1, "\(name) \(Self.word(&random)) \(step)")
                let id = random.oneIn(2) ? "\(number)" : Self.quoted(text)
                _ = try await source.send([EventSource.event("\(step)", id, version: 1, document)])
            case 8:
                guard let (type, id) = ids.randomElement(using: &random) else { continue }
                try await push([entry("update", type, server: id, payload: document)])
            default:
                guard !ids.isEmpty else { continue }
                let (type, id) = ids.remove(at: Int.random(in: 0..<ids.count, using: &random))
                try await push([entry("delete", type, server: id)])
            }
        }
    }

    private static func document(_ random: inout SeededRandom) -> String {
        var members = ["\"n\":\(number(&random))", "\"t\":\(quoted(odd(&random)))"]
        if random.oneIn(3) { members.append("\n\"deep\": [[[{\"\":null}]],\r\n true]") }
        if random.oneIn(4) { members.append("\(quoted(odd(&random) + "k")):\"\\ud83d\\ude00\\u000a\"") }
        return "{" + members.joined(separator: ", ") + "}"
    }

    private static func number(_ random: inout SeededRandom) -> String {
        [
            "1.10", "-0", "1e400", "123456789012345678901234567890.000", "0.1000000000000000000001", "1E-7",
            "-12.50e+3", String(repeating: "9", count: 400),
        ].randomElement(using: &random) ?? "0"
    }

    /// Returns a random text without control characters, for an id.
    private static func word(_ random: inout SeededRandom) -> String {
        odd(&random).filter { $0 != "\n" }
    }

    private static func odd(_ random: inout SeededRandom) -> String {
        ["", "æøå", "\u{2028}", "👩‍👩‍👧", "a\"b\\c/d", "{\"cursor\":1}", "end\n", "\u{feff}", "sl1:", "\u{202e}x"]
            .randomElement(using: &random) ?? ""
    }

    private static func quoted(_ text: String) -> String {
        var writer = JSONWriter()
        writer.string(text)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
