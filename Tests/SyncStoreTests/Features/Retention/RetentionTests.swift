import Foundation
import JSONText
import Logging
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import RetentionFeature
@testable import SyncStore

@Suite struct RetentionTests {
    private static let tables = [
        "mutations", "rejections", "id_mappings", "entities", "devices", "users", "lanes", "feeds", "entity_types",
    ]

    // MARK: - Payloads and records

    @Test func `a payload is deleted seven days after its mutation became final, and the outcome stays`() async throws {
        let phone = try await Phone.new()
        let (gateway, create) = (phone.gateway, phone.create(payload: #"{"title":"once"}"#))
        let first = try await phone.push([create]).results[0]
        gateway.clock.advance(seconds: 7 * Gateway.day)
        #expect(try await gateway.retain()?.report.total == 0)
        #expect(try await phone.column("payload", of: create.id) == #"{"title":"once"}"#)
        gateway.clock.advance(seconds: 1)
        #expect(try await gateway.retain()?.report[.payloads] == 1)
        #expect(try await phone.column("payload", of: create.id) == nil)
        #expect(try await gateway.retain()?.report.total == 0)
        let again = try await phone.push([create]).results[0]
        #expect(again.isReplayed == true && again.status == "succeeded" && again.serverID == first.serverID)
        let other = try await phone.push([phone.entry("create", local: UUID(), key: create.key)]).results[0]
        #expect(other.code == "idempotency_key_reused")
        #expect(try await phone.read(create.id)["payload"]?.isNull == true)
        #expect(try await phone.pull().count == 1)
    }

    @Test func `a record is deleted after thirty days, and its number refuses a late repeat`() async throws {
        let phone = try await Phone.new()
        let (gateway, create) = (phone.gateway, phone.create())
        try await phone.push([create])
        gateway.clock.advance(seconds: 30 * Gateway.day + 1)
        #expect(try await gateway.retain()?.report[.records] == 1)
        #expect(try await phone.count("mutations") == 0)
        let late = try await phone.push([create]).results[0]
        #expect(late.status == "rejected" && late.code == "sequence_already_used")
        #expect(late.rules == ["sequence_number_must_be_monotonic"])
        let page = try await phone.pull()
        #expect(page.count == 1 && page[0]["version"]?.int64 == 1)
        // the entity still exists, so its mapping is kept
        let update = phone.entry("update", local: create.local)
        #expect(try await phone.push([update]).results[0].status == "succeeded")
    }

    @Test func `pending mutations are never deleted`() async throws {
        let phone = try await Phone.forwarding()
        let create = phone.forward("create", local: UUID())
        let update = phone.forward("update", local: create.local, needs: [create.id])
        try await phone.push([create, update])
        phone.gateway.clock.advance(seconds: 400 * Gateway.day)
        #expect(try await phone.gateway.retain()?.report.total == 0)
        #expect(try await phone.statuses([create, update]) == ["pending", "blocked"])
        #expect(try await phone.mapping(try #require(create.local)).hasPrefix("pending"))
    }

    @Test func `deletes rows only in the organization with old rows`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let stranger = Phone(gateway, try await gateway.organization())
        try await phone.push([phone.create(), phone.create()])
        gateway.clock.advance(seconds: 20 * Gateway.day)
        let theirs = stranger.create()
        try await stranger.push([theirs, stranger.entry("delete", local: theirs.local)])
        gateway.clock.advance(seconds: 11 * Gateway.day)
        var before: [String: [String]] = [:]
        for table in Self.tables { before[table] = try await gateway.dump(table, stranger.organization.id) }
        // these rows are eleven days old, so with the default their payloads would be deleted
        let report = try #require(try await gateway.retain(RetentionPolicy(payloadDays: 30, days: 30))).report
        #expect(report[.records] == 2 && report.total == 2)
        for table in Self.tables {
            #expect(try await gateway.dump(table, stranger.organization.id) == before[table], "\(table)")
        }
        #expect(try await phone.count("mutations") == 0)
    }

    // MARK: - Unsettled mutations

    @Test func `a failed mutation is discarded after thirty days, and its user is notified`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let update = phone.entry("update", server: #""nothing""#, payload: #"{"a":"secret"}"#)
        #expect(try await phone.push([update]).results[0].status == "failed")
        let lane = LaneKey(organization: phone.organization.id, user: phone.user)
        let cursor = try await gateway.store.events.start(after: nil, of: lane)
        gateway.clock.advance(seconds: 30 * Gateway.day)
        #expect(try await gateway.retain()?.report.total == 0)
        gateway.clock.advance(seconds: 1)
        #expect(try await gateway.retain()?.report[.unsettled] == 1)
        let events = try await gateway.store.events.page(after: cursor, of: lane).events
        #expect(events.count == 1)
        let reported = try #require(
            events.first.flatMap { if case .mutation(let record) = $0.subject { record } else { nil } }
        )
        #expect(reported.id == update.id && reported.status == .discarded)
        #expect(try JSONTree(parsing: #require(reported.error)).root["code"]?.string == "upstream_rejected")
        let detail = try await phone.read(update.id)
        #expect(detail["payload"]?.isNull == true)
        #expect(detail["last_error"]?.string?.hasPrefix("discarded by retention") == true)
        #expect(try await phone.push([update]).results[0].status == "discarded")
        #expect(try await phone.disorder() == [])
        // the remaining record is deleted like any other
        gateway.clock.advance(seconds: 30 * Gateway.day + 1)
        #expect(try await gateway.retain()?.report[.records] == 1)
        #expect(try await phone.count("mutations") == 0)
    }

    @Test func `a failed mutation stays while another mutation depends on it`() async throws {
        let phone = try await Phone.forwarding()
        let gateway = phone.gateway
        let failed = phone.forward("create", local: UUID())
        let needing = phone.forward("update", local: failed.local, needs: [failed.id])
        try await phone.push([failed, needing])
        try await phone.leave(failed.id, "failed")
        gateway.clock.advance(seconds: 31 * Gateway.day)
        #expect(try await gateway.retain()?.report.total == 0)
        #expect(try await phone.statuses([failed, needing]) == ["failed", "blocked"])
        _ = try await phone.discard(needing.id)
        #expect(try await gateway.retain()?.report[.unsettled] == 1)
        #expect(try await phone.statuses([failed, needing]) == ["discarded", "discarded"])
        #expect(try await phone.disorder() == [])
    }

    @Test func `a discarded conflict releases its lane`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let tablet = Phone(gateway, phone.organization, user: UUID())
        let create = phone.create()
        let id = try #require(try await phone.push([create]).results[0].serverID)
        try await tablet.push([tablet.entry("update", server: "\"\(id)\"")])
        let update = phone.entry("update", local: create.local, extra: ["base_version": "1"])
        let behind = phone.create()
        let results = try await phone.push([update, behind]).results
        #expect(results.map(\.status) == ["conflict", "pending"])
        gateway.clock.advance(seconds: 30 * Gateway.day + 1)
        #expect(try await gateway.retain()?.report[.unsettled] == 1)
        let lane = try await gateway.read(
            "SELECT halted_by IS NULL AND ready_at IS NOT NULL FROM lanes WHERE \(phone.owner)"
        )
        #expect(try lane.read(0, 0, as: Bool.self))
        #expect(try await phone.statuses([update, behind]) == ["discarded", "pending"])
        #expect(try await phone.disorder() == [])
    }

    @Test func `a mutation retried in time is kept`() async throws {
        let phone = try await Phone.forwarding()
        let failed = phone.forward("create", local: UUID())
        try await phone.push([failed])
        try await phone.leave(failed.id, "failed")
        phone.gateway.clock.advance(seconds: 29 * Gateway.day)
        _ = try await phone.retry(failed.id)
        try await phone.leave(failed.id, "failed")
        phone.gateway.clock.advance(seconds: 29 * Gateway.day)
        #expect(try await phone.gateway.retain()?.report.total == 0)
        #expect(try await phone.statuses([failed]) == ["failed"])
    }

    // MARK: - Rejections, tombstones, mappings

    @Test func `a refusal is deleted after thirty days`() async throws {
        let phone = try await Phone.new()
        let bad = phone.entry("update", local: UUID())
        #expect(try await phone.push([bad]).results[0].status == "rejected")
        phone.gateway.clock.advance(seconds: 30 * Gateway.day + 1)
        #expect(try await phone.gateway.retain()?.report[.rejections] == 1)
        let late = try await phone.push([bad]).results[0]
        #expect(late.code == "sequence_already_used" && late.isReplayed == false)
    }

    @Test func `a tombstone is deleted with its mapping, and old cursors start over`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let (gone, kept) = (phone.create(), phone.create())
        try await phone.push([gone, kept])
        let old = try await gateway.store.changes.page(
            since: nil,
            limit: 100,
            entityTypes: [],
            organization: phone.organization,
            user: phone.user
        )
        let cursor = old.next.text
        try await phone.push([phone.entry("delete", local: gone.local)])
        gateway.clock.advance(seconds: 30 * Gateway.day + 1)
        #expect(try await gateway.retain()?.report[.tombstones] == 1)
        #expect(try await phone.mapping(try #require(gone.local)) == "-")
        #expect(try await phone.mapping(try #require(kept.local)).hasPrefix("resolved"))
        let first = try await phone.pull()
        #expect(first.count == 1)
        await #expect { try await phone.pull(since: cursor) } throws: { ($0 as? Problem)?.code == .cursorExpired }
        // a late number is refused, so the deleted entity cannot return
        #expect(try await phone.push([gone]).results[0].code == "sequence_already_used")
    }

    @Test func `an existing entity keeps its mapping permanently`() async throws {
        let phone = try await Phone.new()
        let create = phone.create()
        try await phone.push([create])
        for _ in 0..<5 {
            phone.gateway.clock.advance(seconds: 90 * Gateway.day)
            try await phone.gateway.retain()
        }
        #expect(try await phone.mapping(try #require(create.local)).hasPrefix("resolved"))
        #expect(try await phone.push([phone.entry("update", local: create.local)]).results[0].status == "succeeded")
    }

    @Test func `a mapping without an entity is deleted thirty days after its last use`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let create = phone.create()
        try await phone.push([create])
        let client = try #require(create.local)
        // another user had created the entity, and it is gone
        try await phone.execute("DELETE FROM entities WHERE organization_id = '\(phone.organization.id)'")
        for _ in 0..<3 {
            gateway.clock.advance(seconds: 20 * Gateway.day)
            // referenced by a payload
            try await phone.push([phone.create(payload: #"{"of":"\#(client.lowercased)"}"#)])
            #expect(try await gateway.retain()?.report[.mappings] == 0)
        }
        gateway.clock.advance(seconds: 29 * Gateway.day)
        #expect(try await gateway.retain()?.report[.mappings] == 0)
        #expect(try await phone.mapping(client).hasPrefix("resolved"))
        // only the day of the last use is recorded
        gateway.clock.advance(seconds: 2 * Gateway.day + 1)
        #expect(try await gateway.retain()?.report[.mappings] == 1)
        #expect(try await phone.mapping(client) == "-")
    }

    /// The ways in which a later mutation may reference a deleted entity by its client id.
    enum Naming: CaseIterable { case payload, deepPayload, endpoint, dependency, update, delete }

    @Test(arguments: Naming.allCases)
    func `a mapping stays while a record may need it for comparison`(naming: Naming) async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let first = phone.create()
        let client = try #require(first.local)
        try await phone.push([first])
        let server = String(try await phone.mapping(client).split(separator: " ")[1])
        try await phone.push([phone.entry("delete", local: client)])
        gateway.clock.advance(seconds: 20 * Gateway.day)
        func entry(_ id: String) -> Entry {
            switch naming {
            case .payload: phone.create(payload: #"{"of":"\#(id)"}"#)
            case .deepPayload: phone.create(payload: #"{"list":[{"of":["x","\#(id)"]}]}"#)
            case .endpoint:
                phone.entry("update", local: client, payload: "{}", extra: ["endpoint": #""/tasks/\#(id)/x""#])
            case .dependency:
                phone.entry("create", local: UUID(), extra: ["dependency_ids": #"["\#(client.lowercased)"]"#])
            case .update: phone.entry("update", local: client, payload: #"{"title":"late"}"#)
            case .delete: phone.entry("delete", local: client)
            }
        }
        let second = entry(client.lowercased)
        let answer = try await phone.push([second]).results[0]
        // a worker that received the server id rewrites its outbox
        var rewritten = second
        rewritten.payload = second.payload?.replacing(client.lowercased, with: server)
        rewritten.extra = second.extra.mapValues { $0.replacing(client.lowercased, with: server) }
        if second.operation != "create" { (rewritten.local, rewritten.server) = (nil, "\"\(server)\"") }
        if naming == .dependency { rewritten = second }
        for days in [11.5, 10, 7] {
            gateway.clock.advance(seconds: days * Gateway.day)
            try await gateway.retain()
            let replay = try await phone.push([rewritten]).results[0]
            #expect(replay.isReplayed == true, "\(days): \(replay)")
            #expect(replay.status == answer.status)
        }
        guard try await phone.count("mutations", "synced_at IS NULL") == 0 else { return }
        // once the record is deleted, the watermark refuses the repeat, and the mapping is deleted, too
        gateway.clock.advance(seconds: 3 * Gateway.day)
        try await gateway.retain()
        gateway.clock.advance(seconds: 12 * Gateway.day)
        try await gateway.retain()
        #expect(try await phone.mapping(client) == "-")
        #expect(try await phone.push([rewritten]).results[0].code == "sequence_already_used")
    }

    /// The first push contains only the server id, so it records no use of the client id.
    @Test func `a mapping stays while a record may name its entity by server ID`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let first = phone.create()
        let client = try #require(first.local)
        let server = try #require(try await phone.push([first]).results[0].serverID)
        try await phone.push([phone.entry("delete", server: "\"\(server)\"")])
        gateway.clock.advance(seconds: 20 * Gateway.day)
        let second = phone.create(payload: #"{"of":"\#(server)"}"#)
        try await phone.push([second])
        var rewritten = second
        rewritten.payload = #"{"of":"\#(client.lowercased)"}"#
        for days in [11.5, 10, 7] {
            gateway.clock.advance(seconds: days * Gateway.day)
            try await gateway.retain()
            #expect(try await phone.push([rewritten]).results[0].isReplayed == true, "\(days)")
        }
    }

    @Test func `a mapping stays for a record that ended long after its push`() async throws {
        let phone = try await Phone.forwarding()
        let gateway = phone.gateway
        let named = phone.forward("create", local: UUID())
        let client = try #require(named.local)
        try await phone.push([named])
        try await phone.leave(named.id, "succeeded")
        try await phone.execute(
            """
            UPDATE id_mappings SET status = 'resolved', server_id = 'x', resolved_at = created_at WHERE \(phone.owner)
            """
        )
        let waiting = phone.forward("create", local: UUID(), payload: #"{"of":"\#(client.lowercased)"}"#)
        try await phone.push([waiting])
        gateway.clock.advance(seconds: 50 * Gateway.day)
        _ = try await phone.discard(waiting.id)
        var rewritten = waiting
        rewritten.payload = #"{"of":"x"}"#
        for _ in 0..<2 {
            gateway.clock.advance(seconds: 14 * Gateway.day)
            try await gateway.retain()
            #expect(try await phone.mapping(client).hasPrefix("resolved"))
            #expect(try await phone.push([rewritten]).results[0].isReplayed == true)
        }
        gateway.clock.advance(seconds: 3 * Gateway.day)
        try await gateway.retain()
        gateway.clock.advance(seconds: 2 * Gateway.day)
        try await gateway.retain()
        #expect(try await phone.mapping(client) == "-")
    }

    @Test func `a join keeps mappings that moved records may need`() async throws {
        let one = try await Phone.new()
        let other = Phone(one.gateway, one.organization)
        let gateway = one.gateway
        let first = one.create()
        let client = try #require(first.local)
        try await one.push([first])
        let server = String(try await one.mapping(client).split(separator: " ")[1])
        try await one.push([one.entry("delete", local: client)])
        gateway.clock.advance(seconds: 20 * Gateway.day)
        let second = one.create(payload: #"{"of":"\#(client.lowercased)"}"#)
        try await one.push([second])
        // the target's own mutations are newer, but run before the moved ones
        gateway.clock.advance(seconds: 5 * Gateway.day)
        try await other.push([other.create(), other.create()])
        try await one.join(into: other)
        var rewritten = second
        rewritten.payload = #"{"of":"\#(server)"}"#
        let joined = one.signedIn(as: other.user)
        for days in [6.5, 10, 7] {
            gateway.clock.advance(seconds: days * Gateway.day)
            try await gateway.retain()
            #expect(try await joined.push([rewritten]).results[0].isReplayed == true, "\(days)")
        }
    }

    @Test func `the mapping of a discarded create is deleted`() async throws {
        let phone = try await Phone.forwarding()
        let create = phone.forward("create", local: UUID())
        try await phone.push([create])
        try await phone.leave(create.id, "failed")
        _ = try await phone.discard(create.id)
        phone.gateway.clock.advance(seconds: 32 * Gateway.day)
        #expect(try await phone.gateway.retain()?.report[.mappings] == 1)
        #expect(try await phone.mapping(try #require(create.local)) == "-")
    }

    @Test func `a mapping stays while an open mutation references it`() async throws {
        let phone = try await Phone.forwarding()
        let gateway = phone.gateway
        let (named, other) = (phone.forward("create", local: UUID()), phone.forward("create", local: UUID()))
        try await phone.push([named, other])
        let ids = [named, other].compactMap(\.local)
        for entry in [named, other] { try await phone.leave(entry.id, "succeeded") }
        try await phone.execute(
            """
            UPDATE id_mappings SET status = 'resolved', server_id = 'x', resolved_at = created_at WHERE \(phone.owner)
            """
        )
        let waiting = phone.forward("create", local: UUID(), payload: #"{"of":"\#(ids[0].lowercased)"}"#)
        try await phone.push([waiting])
        gateway.clock.advance(seconds: 60 * Gateway.day)
        #expect(try await gateway.retain()?.report[.mappings] == 1)
        #expect(try await phone.mapping(ids[0]).hasPrefix("resolved"))
        #expect(try await phone.mapping(ids[1]) == "-")
        _ = try await phone.discard(waiting.id)
        gateway.clock.advance(seconds: 32 * Gateway.day)
        try await gateway.retain()
        #expect(try await phone.mapping(ids[0]) == "-")
    }

    // MARK: - Runs

    @Test func `a dry run predicts a run's report and changes nothing`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let creates = (0..<30).map { _ in phone.create() }
        try await phone.push(creates)
        try await phone.push(creates[..<10].map { phone.entry("delete", local: $0.local) })
        try await phone.push([phone.entry("update", server: #""nothing""#), phone.entry("update", local: UUID())])
        gateway.clock.advance(seconds: 31 * Gateway.day)
        var before: [[String]] = []
        for table in Self.tables { before.append(try await gateway.dump(table, phone.organization.id)) }
        let forecast = try #require(try await gateway.retain(limit: 7, isDryRun: true)).report
        for (table, rows) in zip(Self.tables, before) {
            #expect(try await gateway.dump(table, phone.organization.id) == rows, "\(table)")
        }
        let done = try #require(try await gateway.retain(limit: 7)).report
        for kind in RetentionKind.allCases where kind != .mappings { #expect(forecast[kind] == done[kind], "\(kind)") }
        #expect(done[.payloads] == 0 && done[.records] == 40 && done[.unsettled] == 1 && done[.rejections] == 1)
        #expect(done[.tombstones] == 10)
        #expect(try await gateway.retain()?.report.total == 0)
    }

    /// The mutations of a push have the same time, and a page can end between them.
    @Test func `processes every row with pages smaller than a push`() async throws {
        let phone = try await Phone.new()
        for _ in 0..<3 { try await phone.push((0..<100).map { _ in phone.create() }) }
        phone.gateway.clock.advance(seconds: 8 * Gateway.day)
        #expect(try await phone.gateway.retain(limit: 50)?.report[.payloads] == 300)
        #expect(try await phone.count("mutations", "payload IS NOT NULL") == 0)
        phone.gateway.clock.advance(seconds: 30 * Gateway.day)
        #expect(try await phone.gateway.retain(limit: 50)?.report[.records] == 300)
    }

    @Test func `one replica works at a time, and a late replica loses its lease`() async throws {
        let phone = try await Phone.new()
        let (one, two) = (phone.gateway, try await Gateway(replicaOf: phone.gateway))
        try await phone.push([phone.create()])
        one.clock.advance(seconds: 8 * Gateway.day)
        two.clock.advance(seconds: 8 * Gateway.day)
        let retention = one.store.retention
        let first = try #require(try await retention.claim(owner: UUID(), interval: 3_600))
        #expect(try await two.store.retention.claim(owner: UUID(), interval: nil) == nil)
        two.clock.advance(seconds: RetentionStore.leaseSeconds + 1)
        let second = try #require(try await two.store.retention.claim(owner: UUID(), interval: 3_600))
        let cutoffs = RetentionPolicy().cutoffs(at: one.clock.now)
        func step(_ gateway: Gateway, _ lease: RetentionLease) async throws -> RetentionStep? {
            try await gateway.store.retention.step(
                RetentionTask(.payloads),
                of: phone.organization.id,
                after: nil,
                limit: 10,
                cutoffs,
                lease: lease
            )
        }
        #expect(try await step(one, first) == nil)
        #expect(try await phone.count("mutations", "payload IS NULL") == 0)
        // the late replica's release has no effect
        try await retention.release(first, report: RetentionReport(), due: one.clock.now)
        #expect(try await step(two, second)?.changed == 1)
        try await two.store.retention.release(second, report: RetentionReport(), due: two.clock.now.adding(seconds: 60))
        let status = try await two.store.retentionStatus()
        #expect(status.runningSince == nil && status.finishedAt == two.clock.now)
        #expect(try await two.store.retention.claim(owner: UUID(), interval: 3_600) == nil)
        try await two.store.retention.requestRun()
        #expect(try await two.store.retention.claim(owner: UUID(), interval: 3_600) != nil)
    }

    @Test func `a locked lane is skipped until a later step, and the other lanes are processed`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let other = Phone(gateway, try await gateway.organization())
        try await phone.push([phone.create()])
        try await other.push([other.create()])
        gateway.clock.advance(seconds: 8 * Gateway.day)
        let holder = try await gateway.database.connect()
        _ = try await holder.run([.begin])
        _ = try await holder.run(Query(Statement("", "SELECT 1 FROM lanes WHERE \(phone.owner) FOR UPDATE")))
        let result = try #require(try await gateway.retain())
        #expect(!result.isComplete && result.report[.payloads] == 1)
        #expect(try await other.count("mutations", "payload IS NULL") == 1)
        _ = try await holder.run([.rollback])
        holder.close()
        #expect(try await gateway.retain()?.report[.payloads] == 1)
    }

    @Test func `retention resumes after an interruption at any point`() async throws {
        let seed = Seed()
        var generator = seed.generator
        let phone = try await Phone.new()
        let gateway = phone.gateway
        let creates = (0..<80).map { _ in phone.create() }
        try await phone.push(creates)
        try await phone.push(creates[..<40].map { phone.entry("delete", local: $0.local) })
        gateway.clock.advance(seconds: 31 * Gateway.day)
        var total = RetentionReport()
        for _ in 0..<200 {
            let lease = try #require(try await gateway.store.retention.claim(owner: UUID(), interval: nil))
            let steps = Countdown(Int.random(in: 1...3, using: &generator))
            let run = RetentionRun(
                store: gateway.store.retention,
                cutoffs: RetentionPolicy().cutoffs(at: gateway.clock.now),
                lease: lease,
                logger: .init(label: "test"),
                shouldStop: { steps.isOver },
                onStep: { _, _, _ in steps.finishOne() }
            )
            let result = await run.run { 13 }
            for kind in RetentionKind.allCases { total[kind] += result.report[kind] }
            // the lease is not released, as if the process was killed
            gateway.clock.advance(seconds: RetentionStore.leaseSeconds + 1)
            if result.isFinished { break }
        }
        #expect(total[.records] == 120 && total[.tombstones] == 40, "\(seed)")
        #expect(try await phone.count("mutations") == 0)
        #expect(try await phone.count("id_mappings") == 40)
        #expect(try await phone.pull().count == 40)
    }

    @Test func `an unreadable row does not stop the rows after it`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let phone = Phone(gateway, try await gateway.organization())
        let colleague = Phone(gateway, phone.organization)
        let stranger = Phone(gateway, try await gateway.organization())
        let damaged = phone.entry("update", server: #""nothing""#)
        for (phone, entry) in [
            (phone, damaged), (colleague, colleague.entry("update", server: #""nothing either""#)),
            (stranger, stranger.entry("update", server: #""nothing""#)),
        ] {
            #expect(try await phone.push([entry]).results[0].status == "failed")
        }
        try await phone.execute(
            """
            UPDATE mutations SET payload = (SELECT payload FROM mutations WHERE \(colleague.owner)), headers = NULL
            WHERE \(phone.owner)
            """
        )
        gateway.clock.advance(seconds: 31 * Gateway.day)
        let result = try #require(try await gateway.retain())
        #expect(result.isFinished && result.isComplete)
        #expect(result.report[.unsettled] == 3)
        #expect(try await phone.count("mutations", "status = 'failed'") == 0)
        #expect(try await stranger.count("mutations", "status = 'discarded'") == 1)
    }

    /// Timestamps of a clock that was briefly a year ahead do not delay retention.
    @Test func `retention does not wait for a clock that was ahead`() async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        try await phone.push([phone.create()])
        gateway.clock.advance(seconds: 8 * Gateway.day)
        try await gateway.retain()
        try await phone.push([phone.create()])
        gateway.clock.advance(seconds: 8 * Gateway.day)
        let ahead = gateway.clock.now.adding(seconds: 365 * Gateway.day).rfc3339
        try await phone.execute(
            """
            UPDATE retention_runs SET due_at = '\(ahead)', owner = '\(UUID())', expires_at = '\(ahead)';
            UPDATE retention_places SET shrunk_until = '\(ahead)', mappings_seen_at = '\(ahead)'
            """
        )
        let status = try await gateway.store.retentionStatus()
        #expect(status.runningSince == nil && status.isDue(at: gateway.clock.now, interval: 3_600))
        let lease = try #require(try await gateway.store.retention.claim(owner: UUID(), interval: 3_600))
        try await gateway.store.retention.release(lease, report: nil, due: gateway.clock.now)
        #expect(try await gateway.retain()?.report[.payloads] == 1)
        let seen = try await gateway.read("SELECT mappings_seen_at FROM retention_places")
        #expect(try seen.read(0, 0, as: Timestamp.self) == gateway.clock.now)
    }

    // MARK: - Plans

    /// A step reads only old rows, for any size of the tables at planning time.
    @Test(.onOneServer("plans of one server"), arguments: [false, true])
    func `steps look up rows by index and prune partitions`(isAnalyzed: Bool) async throws {
        let phone = try await Phone.new()
        let gateway = phone.gateway
        for _ in 0..<6 {
            let creates = (0..<200).map { _ in phone.create() }
            try await phone.push(creates)
            try await phone.push(creates[..<50].map { phone.entry("delete", local: $0.local) })
            gateway.clock.advance(seconds: Gateway.day)
        }
        let connection = try await gateway.database.connect(
            settings: Store.hotSettings + [("enable_material", "off"), ("enable_bitmapscan", "off")]
        )
        if isAnalyzed { try await connection.execute(script: "ANALYZE") }
        let organization = "'\(phone.organization.id.lowercased)'"
        let (early, late) = ("'2020-01-01T00:00:00Z'", "'2036-01-01T00:00:00Z'")
        let (zero, user) = ("'\(UUID.least.lowercased)'", "'\(phone.user.lowercased)'")
        let found = try await gateway.read("SELECT id FROM mutations WHERE \(phone.owner) LIMIT 50")
        let listed = try (0..<found.count).map { "'\(try found.read($0, 0, as: UUID.self).lowercased)'" }
        let ids = "ARRAY[\(listed.joined(separator: ","))]::uuid[]"
        let users = "ARRAY[\(listed.map { _ in user }.joined(separator: ","))]::uuid[]"
        let organizations = "ARRAY[\(listed.map { _ in organization }.joined(separator: ","))]::uuid[]"
        let calls: [(Statement, String, String)] = [
            (
                AgedRetention.finalMutations.statement, "\(organization), \(early), \(zero), \(zero), \(late), 50",
                "synced_at_idx"
            ),
            (AgedRetention.shrinkStatement, "\(organizations), \(users), \(ids)", "mutations_p\\d+_pkey"),
            (AgedRetention.deleteMutationsStatement, "\(organizations), \(users), \(ids)", "mutations_p\\d+_pkey"),
            (
                ExpiredFailures.rows.statement, "\(organization), \(early), \(zero), \(zero), \(late), 50",
                "accepted_at_idx"
            ),
            (
                try #require(gateway.store.retention.aged.first { $0.name == "rejections" }).rows.statement,
                "\(organization), \(early), \(zero), \(zero), \(late), 50",
                "rejected_at_idx"
            ),
            (TombstoneRetention.pageStatement, "\(organization), \(early), '', '', \(late), 50", "updated_at_idx"),
            (
                MappingRetention.pageStatement, "\(organization), \(zero), \(zero), \(late), 50",
                "id_mappings_p\\d+_pkey"
            ),
        ]
        for (statement, values, index) in calls {
            let plan = try await connection.explain(statement, values)
            #expect(!plan.contains("Seq Scan") && !plan.contains("Hash"), "\(plan)")
            #expect(plan.contains(try Regex(index)), "\(plan)")
            #expect(plan.contains("never executed") || plan.contains("Subplans Removed"), "\(plan)")
            let most = plan.matches(of: /rows=(\d+)/).compactMap { Int($0.output.1) }.max() ?? 0
            #expect(most <= 1_000, "a step reads \(most) rows: \(plan)")
        }
        connection.close()
    }
}
