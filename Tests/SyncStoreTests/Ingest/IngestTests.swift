import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import IngestFeature
@testable import SyncStore

/// Edits from other systems in the built-in store.
@Suite struct IngestTests {
    private typealias Source = EventSource

    @Test func `an ingested edit is in the feed at its position`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let source = Source(gateway, phone.organization)
        let id = try #require(try await phone.push([phone.create()]).results.first?.serverID)
        let answer = try await source.send([
            Source.event("a", "patch", #""\#(id)""#, version: 5, #"{"done":true}"#),
            Source.event("b", "4711", version: 1), Source.event("c", "delete", "4712", version: 1),
        ])
        #expect(answer.map { $0["result"]?.string } == ["applied", "applied", "applied"])
        #expect(answer.map { $0["version"]?.int64 } == [2, 1, 1])
        let changes = try await phone.pull()
        #expect(changes.map { $0["id"]?.text } == [#""\#(id)""#, "4711", "4712"])
        #expect(changes[0]["document"]?.text == #"{"title":"x","done":true}"#)
        #expect(changes[1]["updated_by"]?.uuid == Writer.elsewhere.user)
        #expect(changes[2]["deleted"]?.bool == true)
    }

    @Test func `an event that is a nanosecond older is stale`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let source = Source(gateway, phone.organization)
        func event(_ id: String, _ fraction: String) -> String {
            let moment = ["occurred_at": #""2026-11-20T07:00:00.\#(fraction)Z""#]
            return Source.event(id, "1", #"{"title":"\#(id)"}"#, extra: moment)
        }
        // in separate transactions, and within one transaction
        #expect(try await source.results([event("a", "123456789")]) == ["applied"])
        #expect(try await source.results([event("b", "123456788"), event("c", "123456")]) == ["stale", "stale"])
        #expect(
            try await source.results([event("d", "123456789"), event("e", "1234567891")]) == ["applied", "applied"]
        )
        #expect(try await source.results([event("f", "123456789"), event("g", "123457")]) == ["stale", "applied"])
        #expect(try await source.results([event("h", "123456999")]) == ["stale"])
        #expect(try await phone.pull().map { $0["document"]?["title"]?.string } == ["g"])
    }

    @Test func `an id as a number and as a text names the same entity, and keeps its first form`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let source = Source(gateway, phone.organization)
        let answer = try await source.send([
            Source.event("a", "4711", version: 1), Source.event("b", #""4711""#, version: 2, #"{"title":"b"}"#),
            Source.event("c", #""4712""#, version: 1), Source.event("d", "delete", "4712", version: 2),
            Source.event("e", #""04711""#, version: 1),
        ])
        #expect(answer.map { $0["version"]?.int64 } == [1, 2, 1, 2, 1])
        let changes = try await phone.pull()
        #expect(changes.map { $0["id"]?.text } == ["4711", #""4712""#, #""04711""#])
        #expect(changes[0]["document"]?["title"]?.string == "b" && changes[1]["deleted"]?.bool == true)
    }

    @Test(arguments: ConflictResolution.allCases)
    func `a conflict of an edit based on an older version is resolved by its strategy`(_ strategy: ConflictResolution)
        async throws
    {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let source = Source(gateway, phone.organization)
        let id = try #require(try await phone.push([phone.create()]).results.first?.serverID)
        #expect(try await source.results([Source.event("a", #""\#(id)""#, version: 5)]) == ["applied"])
        let stale = phone.entry(
            "update",
            server: #""\#(id)""#,
            payload: #"{"title":"mine"}"#,
            extra: ["base_version": "1", "conflict_resolution": #""\#(strategy.rawValue)""#]
        )
        let result = try #require(try await phone.push([stale]).results.first)
        let document = try await phone.pull().last?["document"]?.text
        switch strategy {
        case .manual:
            #expect(result.status == "conflict" && document == #"{"title":"theirs"}"#)
            #expect(result.value(at: "/error/current/document/title")?.string == "theirs")
        case .serverWins: #expect(result.status == "discarded" && document == #"{"title":"theirs"}"#)
        case .clientWins: #expect(result.status == "succeeded" && document == #"{"title":"mine"}"#)
        }
    }

    @Test func `an event is applied once per source, through any gateway`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        let source = Source(replicas.base, organization)
        let event = Source.event("a", "1", version: 1)
        #expect(try await source.results([event, event], through: replicas[0]) == ["applied", "duplicate"])
        let again = try await source.send([event], through: replicas[1])
        #expect(again[0]["result"]?.string == "duplicate" && again[0]["original"]?.string == "applied")
        // an event of another source, with a version that is not newer
        let other = Source(replicas.base, organization, name: "erp")
        #expect(try await other.results([event], through: replicas[1]) == ["stale"])
        let elsewhere = Source(replicas.base, try await replicas.base.organization())
        #expect(try await elsewhere.results([event], through: replicas[0]) == ["applied"])
    }

    @Test func `the same events are applied once if two gateways receive them concurrently`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas.base.organization()
        let source = Source(replicas.base, organization)
        for round in 0..<10 {
            let events = (0..<20).map { Source.event("\(round)-\($0)", "\($0)", #"{"n":\#(round)}"#) }
            async let one = source.results(events.shuffled(), through: replicas[0])
            async let other = source.results(events.shuffled(), through: replicas[1])
            let results = try await one + other
            #expect(results.filter { $0 == "applied" }.count == 20, "\(results)")
            #expect(results.filter { $0 == "duplicate" }.count == 20, "\(results)")
        }
        let phone = Phone(replicas.base, organization)
        let changes = try await phone.pull()
        #expect(changes.count == 20 && changes.allSatisfy { $0.version == 10 })
    }

    @Test func `an event that is not newer than the stored version changes nothing`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let source = Source(gateway, phone.organization)
        #expect(try await source.results([Source.event("b", "1", version: 7, #"{"n":7}"#)]) == ["applied"])
        let late = [Source.event("a", "1", version: 6, #"{"n":6}"#), Source.event("c", "1", version: 7, #"{"n":0}"#)]
        #expect(try await source.results(late) == ["stale", "stale"])
        #expect(try await phone.pull().map { $0["document"]?.text } == [#"{"n":7}"#])
    }

    @Test func `only the owner sees a private entity`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        _ = try await gateway.store.administration.putEntityType(
            "task",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"visibility":"user"}"#.utf8))
        )
        let (ada, eve) = (Phone(gateway, organization), Phone(gateway, organization))
        let source = Source(gateway, organization)
        let owned = ["owner": #""\#(ada.user.lowercased)""#]
        let results = try await source.send([
            Source.event("a", "1", version: 1), Source.event("b", "1", version: 1, extra: owned),
            Source.event("c", "1", version: 2, extra: ["owner": #""\#(eve.user.lowercased)""#]),
        ])
        #expect(results.map { $0["result"]?.string } == ["refused", "applied", "refused"])
        #expect(results[0].value(at: "/error/errors/0/pointer")?.string == "/events/0/owner")
        #expect(try await ada.pull().count == 1)
        #expect(try await eve.pull().isEmpty)
    }

    @Test func `a later event sets the owner of an entity whose first event was a delete`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        _ = try await gateway.store.administration.putEntityType(
            "task",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"visibility":"user"}"#.utf8))
        )
        let (ada, eve) = (Phone(gateway, organization), Phone(gateway, organization))
        let source = Source(gateway, organization)
        let (adas, eves) = (["owner": #""\#(ada.user.lowercased)""#], ["owner": #""\#(eve.user.lowercased)""#])
        let results = try await source.send([
            Source.event("a", "delete", "1", version: 2), Source.event("b", "1", version: 1, extra: adas),
            Source.event("c", "1", version: 3), Source.event("d", "1", version: 3, extra: adas),
            Source.event("e", "delete", "1", version: 4), Source.event("f", "1", version: 5, extra: eves),
        ])
        #expect(
            results.map { $0["result"]?.string } == ["applied", "stale", "refused", "applied", "applied", "refused"]
        )
        #expect(results[2].value(at: "/error/errors/0/pointer")?.string == "/events/2/owner")
        #expect(results[5].value(at: "/error/errors/0/detail")?.string?.contains("another id") == true)
        #expect(try await ada.pull().map { $0["deleted"]?.bool } == [true])
        #expect(try await eve.pull().isEmpty)
    }

    @Test func `an applied event wakes waiting readers of the feed`() async throws {
        let gateway = try await Gateway(pollInterval: .seconds(600))
        let phone = Phone(gateway, try await gateway.organization())
        let source = Source(gateway, phone.organization)
        let interest = FeedInterest(organization: phone.organization.id, user: phone.user, entityTypes: [])
        try await gateway.store.notifier.watching(feed: (interest, 0)) { watch in
            _ = try await source.send([Source.event("a", "1", version: 1)])
            let changes = await watch.changes(within: Waiting.limit)
            #expect(changes.feed != nil, "\(changes)")
        }
    }

    // MARK: - The organization

    @Test func `a purged organization accepts no events and keeps none`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let administration = gateway.store.administration
        let source = Source(gateway, organization)
        _ = try await administration.makeServiceToken(for: "crm", of: organization.id)
        #expect(try await source.results([Source.event("a", "1", version: 1)]) == ["applied"])
        #expect(try await administration.purge(organization.id))
        await #expect(throws: Problem.self) { _ = try await source.results([Source.event("b", "1", version: 2)]) }
        for table in ["ingested_events", "parked_events", "sent_requests", "service_tokens", "entities"] {
            #expect(try await gateway.count(table, of: organization.id) == 0, "\(table)")
        }
    }

    /// An organization with one ingested event.
    private func ingested() async throws -> (Gateway, Organization, Source, IngestPruning) {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let source = Source(gateway, organization)
        _ = try await gateway.store.administration.makeServiceToken(for: "crm", of: organization.id)
        #expect(try await source.results([Source.event("a", "1", version: 1)]) == ["applied"])
        let pruning = IngestPruning(
            pool: gateway.store.pool,
            policy: RetentionPolicy(),
            now: { [clock = gateway.clock] in clock.now },
            failure: gateway.store.failure
        )
        return (gateway, organization, source, pruning)
    }

    @Test func `retention deletes old events`() async throws {
        let (gateway, organization, _, pruning) = try await ingested()
        gateway.clock.advance(seconds: 29 * 86_400)
        try await pruning.prune()
        #expect(try await gateway.count("ingested_events", of: organization.id) == 1)
        gateway.clock.advance(seconds: 2 * 86_400)
        try await pruning.prune()
        #expect(try await gateway.count("ingested_events", of: organization.id) == 0)
    }

    /// A poller receives the unchanged items of a list with each pass.
    @Test func `an event that is received repeatedly is remembered beyond the retention`() async throws {
        let (gateway, organization, source, pruning) = try await ingested()
        for _ in 0..<4 {
            gateway.clock.advance(seconds: 20 * 86_400)
            #expect(try await source.results([Source.event("a", "1", version: 1)]) == ["duplicate"])
            try await pruning.prune()
            #expect(try await gateway.count("ingested_events", of: organization.id) == 1)
        }
    }

    // MARK: - Tokens

    @Test func `a token is valid in its organization until it is revoked`() async throws {
        let replicas = try await GatewayPair()
        let administration = replicas[0].store.administration
        let (north, south) = (try await replicas.base.organization(), try await replicas.base.organization())
        let made = try #require(try await administration.makeServiceToken(for: "crm", of: north.id))
        let found = try await replicas[1].store.serviceTokens.bearer(of: made.token)
        #expect(found?.source == "crm" && found?.organization == north.id && found?.isFirstUse == true)
        let same = ServiceToken(organization: north.id, id: made.token.id)
        #expect(try await replicas[1].store.serviceTokens.bearer(of: same) == nil)
        #expect(try await administration.serviceTokens(of: south.id)?.isEmpty == true)
        #expect(try await administration.revokeServiceToken(made.row.id, of: south.id) == nil)
        #expect(try await administration.revokeServiceToken(made.row.id, of: north.id)?.revokedAt != nil)
        #expect(try await replicas[0].store.serviceTokens.bearer(of: made.token) == nil)
        // another gateway applies it within five seconds
        for replica in [replicas[0], replicas[1], replicas.base] { replica.clock.advance(seconds: 5) }
        #expect(try await replicas[1].store.serviceTokens.bearer(of: made.token) == nil)
        #expect(try await administration.makeServiceToken(for: "crm", of: UUID()) == nil)
        await #expect(throws: Problem.self) {
            _ = try await administration.makeServiceToken(for: "Not a name", of: north.id)
        }
    }

    // MARK: - Statements

    /// Each statement names rows by whole keys. So its plan is a chain of look-ups by index in one partition, whether
    /// the tables are small or have grown.
    @Test(.onOneServer("plans of one server"), arguments: [false, true])
    func `the statements look up rows by index and prune partitions`(isGrown: Bool) async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        defer { connection.close() }
        let values: [(Statement, String)] = [
            (IngestStatements.seen, "$$, '{crm}', '{e5}'"),
            (IngestStatements.parked, "$$, '{task}', '{5}', 100, 1000000"),
            (IngestStatements.firstParked, "$$, '{task}', '{5}'"), (IngestStatements.lastPlaces, "$$, '{task}', '{5}'"),
            (IngestStatements.parkedCauses, "$$, '{task}', '{5}', 100"),
            (IngestStatements.lockEntities, "$$, '{task}', '{5}', '{1}', 1000000, 1000000"),
            (IngestStatements.requests, "$$, '{task}', '{5}'"),
            (IngestStatements.causes, "$$, '{\(UUID())}'"),
            (IngestStatements.creates, "$$, '{task}', '2026-11-20T07:00:00Z'"), (IngestStatements.parkedCounts, "$$"),
            (IngestStatements.unpark, "$$, '{crm}', '{e5}'"), (IngestStatements.forget, "$$, '{crm}', '{e5}'"),
            (IngestStatements.refresh, "$$, '{crm}', '{e5}', '{applied}', '{2030-01-01T07:00:00Z}'"),
            (IngestStatements.postponeEntities, "$$, '{task}', '{5}', '2026-11-20T07:00:00Z'"),
            (IngestStatements.deferFollowers, "$$, '{task}', '{5}', '{1}'"),
            (IngestStatements.wakeNext, "$$, '{task}', '{5}', '2026-11-20T07:00:00Z'"),
            (IngestStatements.postpone, "$$, '{crm}', '{e5}', '2026-11-20T07:00:00Z'"),
            (IngestStatements.useRequests, "$$, '{\(UUID())}'"),
            (IngestStatements.markEntities, "$$, '{task}', '{5}', '{7}', '{2026-11-20T07:00:00Z}', '{1}'"),
            (IngestCommit.waitingStatement, "$$"),
            (AnsweredRequestRow.write, "$$, '{\(UUID())}', '{5}', '{NULL}', '{1}', '2026-11-20T07:00:00Z'"),
            (AnsweredRequestRow.forget, "$$, '{\(UUID())}'"),
        ]
        // the statements are prepared while the tables are small, and reused after they have grown
        for (statement, _) in values {
            try await connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
        }
        if isGrown { try await Self.fill(organization.id, gateway) }
        for (statement, parameters) in values {
            let call = parameters.replacing("$$", with: "'{\(organization.id)}'")
            let plan = try await connection.explain("\(statement.name)(\(call))")
            let seen = plan.replacing(/.*Seq Scan on (organizations|service_tokens).*/, with: "")
            #expect(!seen.contains("Seq Scan"), "\(statement.name)\n\(plan)")
            #expect(!plan.contains("Hash Join") && !plan.contains("Merge Join"), "\(statement.name)\n\(plan)")
            #expect(plan.contains("never executed"), "\(statement.name)\n\(plan)")
            // the number of parked events bounds two of the statements
            let isBounded = [IngestStatements.parkedCounts, IngestCommit.waitingStatement].contains(statement)
            #expect(pages(in: plan) < (isBounded ? 500 : 120), "\(statement.name)\n\(plan)")
        }
    }

    private static func fill(_ organization: UUID, _ gateway: Gateway) async throws {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let both = "(VALUES ('\(organization)'::uuid), (gen_random_uuid())) o (id)"
        try await connection.execute(
            script: """
                INSERT INTO ingested_events SELECT o.id, 'crm', 'e' || n, 'applied', now()
                FROM generate_series(1, 20000) n, \(both);
                INSERT INTO parked_events (organization_id, source, event_id, entity_type, id, id_is_integer, version,
                    operation, document, received_at, look_at)
                SELECT o.id, 'crm', 'e' || n, 'task', n::text, true, 1, 'upsert', '{}', now(), now()
                FROM generate_series(1, 4000) n, \(both);
                INSERT INTO sent_requests (organization_id, idempotency_key, entity_type, server_id, sent_at, answered_at)
                SELECT o.id, gen_random_uuid(), 'task', CASE WHEN n % 10 > 0 THEN (n % 1000)::text END,
                    timestamptz '2026-11-20T06:00:00Z', '2026-11-20T06:00:00Z'
                FROM generate_series(1, 20000) n, \(both);
                INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id,
                    updated_by, updated_on, run_base, created_at, updated_at)
                SELECT o.id, 'task', n::text, 1, '{}', n, o.id, o.id, o.id, 0, now(), now()
                FROM generate_series(1, 20000) n, \(both);
                """
        )
    }
}
