import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import EncryptionFeature
@testable import IngestFeature
@testable import SyncStore

/// Workers, receivers and operators use sources.
@Suite struct SourceStoreTests {
    private static let mapping = """
        {"rules": [{"entity_type": "task", "operation": "upsert", "id": "/id", "version": "/v", "document": ""}]}
        """

    static func settings(_ kind: SourceKind = .webhook) throws -> SourceSettings {
        // for kinds whose settings depend on their workers, the text has only the members that all kinds have
        let text =
            switch kind {
            case .webhook: #"{"mapping": \#(mapping)}"#
            case .poller: #"{"path": "/tasks", "mapping": \#(mapping)}"#
            case .postgres:
                #"{"slot": "s", "publication": "p", "tables": [{"table": "a.task", "entity_type": "task", "id": "id"}]}"#
            }
        return try #require(SourceSettings(kind, stored: Array(text.utf8)))
    }

    private func make(
        _ kind: SourceKind = .webhook,
        _ name: String = "crm",
        in organization: UUID,
        _ gateway: Gateway,
        secret: String? = nil,
        isEnabled: Bool = true
    ) async throws -> SourceKey {
        let key = SourceKey(organization: organization, name: name)
        let update = SourceUpdate(settings: try Self.settings(kind), isEnabled: isEnabled, secret: secret)
        _ = try #require(try await gateway.store.sourceAdministration.put(key, update))
        return key
    }

    /// A source that a worker fetches from, with minimal settings for its kind.
    private func work(_ name: String = "crm", in organization: UUID, _ gateway: Gateway) async throws -> SourceKey {
        let key = SourceKey(organization: organization, name: name)
        try await gateway.execute(
            """
            INSERT INTO sources (organization_id, name, kind, status, settings, next_run_at, created_at, updated_at)
            VALUES ('\(organization)', '\(name)', 'webhook', 'enabled', '{"mapping": \(Self.mapping)}',
                '\(gateway.clock.now.rfc3339)', '\(gateway.clock.now.rfc3339)', '\(gateway.clock.now.rfc3339)')
            """
        )
        return key
    }

    private func advance(_ replicas: GatewayPair, seconds: Double) {
        for gateway in [replicas.base, replicas[0], replicas[1]] { gateway.clock.advance(seconds: seconds) }
    }

    // MARK: - Workers

    @Test func `one worker at a time has the lease of a source, and a late report changes nothing`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas[0].organization()
        let key = try await work(in: organization.id, replicas[0])
        let (one, other) = (replicas[0].store.sources, replicas[1].store.sources)
        #expect(try await one.due(.webhook).due == [key])
        let first = try #require(try await one.claim(key, .webhook))
        #expect(first.state == nil && first.secret == nil && first.bearer.source == "crm")
        #expect(try await other.claim(key, .webhook) == nil)
        #expect(try await other.due(.webhook).due.isEmpty)
        #expect(try await one.progress(first, state: Array(#"{"n":1}"#.utf8), hasEvents: true) != nil)

        advance(replicas, seconds: SourceStore.leaseSeconds + 1)
        #expect(try await other.due(.webhook).due == [key])
        let second = try #require(try await other.claim(key, .webhook))
        #expect(second.state == Array(#"{"n":1}"#.utf8))
        #expect(try await one.renew(first) == nil)
        #expect(try await one.progress(first, state: Array(#"{"n":9}"#.utf8), hasEvents: true) == nil)
        let late = SourceOutcome.failed(error: "late", retryAt: replicas[0].clock.now)
        #expect(try await one.finish(first, late) == false)
        let next = replicas[0].clock.now.adding(seconds: 30)
        let done = SourceOutcome.succeeded(state: nil, hasEvents: false, nextRunAt: next)
        #expect(try await other.finish(second, done))
        #expect(try await other.finish(second, done) == false)
        let row = try #require(try await replicas[0].store.sourceAdministration.source(key))
        #expect(row.state == Array(#"{"n":1}"#.utf8) && row.nextRunAt == next && row.failureCount == 0)
        #expect(row.lastSuccessAt != nil && row.lastEventAt != nil && row.lastError == nil)
    }

    @Test func `failures are counted until a success, and stored errors are bounded`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let key = try await work(in: organization.id, gateway)
        let began = gateway.clock.now
        for count in 1...3 {
            let claim = try #require(try await gateway.store.sources.claim(key, .webhook))
            #expect(claim.failureCount == Int32(count - 1))
            let error = String(repeating: "é\u{1}", count: 2_000)
            let retry = gateway.clock.now.adding(seconds: 5)
            #expect(try await gateway.store.sources.finish(claim, .failed(error: error, retryAt: retry)))
            #expect(try await gateway.store.sources.claim(key, .webhook) == nil)
            gateway.clock.advance(seconds: 6)
        }
        let row = try #require(try await gateway.store.sourceAdministration.source(key))
        #expect(row.failureCount == 3 && row.failingSince == began)
        #expect(row.lastError.map { $0.utf8.count <= 1_000 && !$0.contains("\u{1}") && $0.hasSuffix("…") } == true)
        let stats = try await gateway.store.sources.stats()
        #expect(stats[.webhook]?.failing == 1 && stats[.webhook]?.ok == 0)
        let claim = try #require(try await gateway.store.sources.claim(key, .webhook))
        _ = try await gateway.store.sources.finish(claim, .released(nextRunAt: gateway.clock.now))
        #expect(try await gateway.store.sourceAdministration.source(key)?.failureCount == 3)
        let again = try #require(try await gateway.store.sources.claim(key, .webhook))
        let success = SourceOutcome.succeeded(state: nil, hasEvents: true, nextRunAt: gateway.clock.now)
        _ = try await gateway.store.sources.finish(again, success)
        let corrected = try #require(try await gateway.store.sourceAdministration.source(key))
        #expect(corrected.failureCount == 0 && corrected.failingSince == nil && corrected.lastError == nil)
        #expect(try await gateway.store.sources.stats()[.webhook]?.ok == 1)
    }

    @Test func `neither a run nor other settings reset failures`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let key = SourceKey(organization: organization.id, name: "crm")
        let text =
            #"{"slot":"s","publication":"p","tables":[{"table":"public.t","entity_type":"t","id":"id"}]}"#
        var report = MemberReport()
        let settings = SourceSettings(.postgres, try JSONTree(parsing: Array(text.utf8)).root, at: "", &report)
        let update = SourceUpdate(settings: try #require(settings), secret: "postgresql://u:p@db/d")
        let administration = gateway.store.sourceAdministration
        _ = try await administration.put(key, update)
        let claim = try #require(try await gateway.store.sources.claim(key, .postgres))
        let failure = SourceOutcome.failed(error: "no", retryAt: gateway.clock.now.adding(seconds: 60))
        #expect(try await gateway.store.sources.finish(claim, failure))
        #expect(try await administration.run(key, from: .anew)?.failureCount == 1)
        let row = try #require(try await administration.put(key, update)).row
        #expect(row.failureCount == 1 && row.failingSince != nil && row.lastError == "no")
        // storing a state does not reset the failures either
        let next = try #require(try await gateway.store.sources.claim(key, .postgres))
        #expect(try await gateway.store.sources.isHeld(next))
        #expect(try await gateway.store.sources.record(next, state: Array("{}".utf8)) != nil)
        #expect(try await administration.source(key)?.failureCount == 1)
        #expect(try await gateway.store.sources.progress(next, state: Array("{}".utf8), hasEvents: false) != nil)
        #expect(try await administration.source(key)?.failureCount == 0)
        // an operator's change ends the worker's lease immediately
        _ = try await administration.put(key, SourceUpdate(settings: update.settings, isEnabled: false))
        #expect(try await !gateway.store.sources.isHeld(next))
        #expect(try await gateway.store.sources.record(next, state: Array("{}".utf8)) == nil)
    }

    @Test func `workers find no sources of suspended organizations or of other kinds`() async throws {
        let gateway = try await Gateway()
        var keys: [SourceKey] = []
        for name in ["a", "b"] {
            let organization = try await gateway.organization()
            keys.append(try await work(name, in: organization.id, gateway))
            gateway.clock.advance(seconds: 1)
        }
        #expect(try await gateway.store.sources.due(.webhook).due == keys)
        _ = try await gateway.store.administration.put(keys[0].organization, OrganizationUpdate(status: .suspended))
        #expect(try await gateway.store.sources.due(.webhook).due == [keys[1]])
        #expect(try await gateway.store.sources.claim(keys[0], .webhook) == nil)
        #expect(try await gateway.store.sources.due(.poller).due.isEmpty)
        #expect(try await gateway.store.sources.claim(keys[1], .poller) == nil)
    }

    @Test func `an operator's change revokes the worker's claim on the source`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let administration = gateway.store.sourceAdministration
        let key = try await work(in: organization.id, gateway)
        let first = try #require(try await gateway.store.sources.claim(key, .webhook))
        let update = SourceUpdate(settings: try Self.settings(), secret: "whsec_x")
        #expect(try await administration.put(key, update)?.isNew == false)
        #expect(try await gateway.store.sources.renew(first) == nil)
        #expect(try await administration.delete(key))
        #expect(try await gateway.store.sources.finish(first, .released(nextRunAt: gateway.clock.now)) == false)
    }

    @Test func `reports about a former upstream change nothing and release the poller`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let (sources, administration) = (gateway.store.sources, gateway.store.sourceAdministration)
        func setUpstream(_ host: String) async throws {
            let update = UpstreamUpdate(baseURL: "http://\(host).invalid")
            _ = try await gateway.store.administration.putUpstream(of: organization.id, update)
        }
        try await setUpstream("former")
        let key = try await make(.poller, in: organization.id, gateway)
        let state = Array(#"{"n":1}"#.utf8)
        let later = gateway.clock.now.adding(seconds: 300)
        let outcomes: [SourceOutcome] = [
            .succeeded(state: state, hasEvents: true, nextRunAt: later),
            .failed(error: "no answer", retryAt: later, state: state),
        ]
        for outcome in outcomes {
            let claim = try #require(try await sources.claim(key, .poller))
            #expect(try await sources.isHeld(claim))
            gateway.clock.advance(seconds: 1)
            try await setUpstream("latter")
            #expect(try await sources.isHeld(claim) == false)
            #expect(try await sources.progress(claim, state: state, hasEvents: true) == nil)
            #expect(try await sources.finish(claim, outcome))
            let row = try #require(try await administration.source(key))
            #expect(row.state == nil && row.lastSuccessAt == nil && row.lastEventAt == nil)
            #expect(row.failureCount == 0 && !row.isLeased && row.nextRunAt == gateway.clock.now)
        }
        let claim = try #require(try await sources.claim(key, .poller))
        _ = try await gateway.store.administration.deleteUpstream(of: organization.id)
        #expect(try await sources.isHeld(claim) == false)
        #expect(try await sources.finish(claim, outcomes[0]))
        #expect(try await administration.source(key)?.state == nil)
        let without = try #require(try await sources.claim(key, .poller))
        #expect(try await sources.finish(without, outcomes[1]))
        #expect(try await administration.source(key)?.failureCount == 1)
    }

    /// In an earlier version, the claim was rolled back and repeated each second, and the source counted as working.
    @Test func `an undecryptable secret is a failure of its source, with growing pauses`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await gateway.organization()
        let uri = "postgresql://u:p@db.example.org/d"
        let key = try await make(.postgres, in: organization.id, gateway, secret: uri)
        let other = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second)
        other.clock.set(gateway.clock.now)
        for count in 1...4 {
            #expect(try await other.store.sources.due(.postgres).due == [key])
            #expect(try await other.store.sources.claim(key, .postgres) == nil)
            #expect(try await other.store.sources.due(.postgres).due.isEmpty)
            let row = try #require(try await gateway.store.sourceAdministration.source(key))
            #expect(row.failureCount == Int32(count) && row.failingSince != nil)
            #expect(row.lastError?.contains("secret cannot be decrypted") == true, "\(row.lastError ?? "no error")")
            let pause = Double(1 << (count - 1))
            let next = Double((row.nextRunAt?.microseconds ?? 0) - other.clock.now.microseconds) / 1_000_000
            #expect(next >= pause && next <= pause * 1.2)
            other.clock.set(try #require(row.nextRunAt))
        }
        gateway.clock.set(other.clock.now)
        let claim = try #require(try await gateway.store.sources.claim(key, .postgres))
        #expect(claim.secret == uri && claim.failureCount == 4)
    }

    // MARK: - Receivers

    /// In an earlier version, senders got 503 for days, and the source counted as working.
    @Test func `an undecryptable secret of a receiver is recorded once a minute`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await gateway.organization()
        let key = try await make(in: organization.id, gateway, secret: "whsec_one")
        let other = try await Gateway(replicaOf: gateway, masterKeys: TestKeys.second)
        other.clock.set(gateway.clock.now)
        for count in 1...2 {
            for _ in 0..<3 {
                await #expect(throws: StoreFailure.sealed) { try await other.store.receivers.receiver(key) }
            }
            let row = try #require(try await gateway.store.sourceAdministration.source(key))
            #expect(row.failureCount == Int32(count) && row.failingSince != nil)
            #expect(row.lastError?.contains("secret cannot be decrypted") == true, "\(row.lastError ?? "no error")")
            other.clock.advance(seconds: SourceReceivers.noteSeconds + 1)
        }
        let receiver = try #require(try await gateway.store.receivers.receiver(key))
        await gateway.store.receivers.succeeded(receiver)
        let corrected = try #require(try await gateway.store.sourceAdministration.source(key))
        #expect(corrected.failureCount == 0 && corrected.lastError == nil)
    }

    @Test func `caches a receiver for five seconds and accepts an earlier secret for its overlap`() async throws {
        let replicas = try await GatewayPair()
        let organization = try await replicas[0].organization()
        let key = try await make(in: organization.id, replicas[0], secret: "whsec_one")
        let (here, elsewhere) = (replicas[0].store.receivers, replicas[1].store.receivers)
        #expect(try await elsewhere.receiver(key)?.secrets == ["whsec_one"])
        _ = try await replicas[0].store.sourceAdministration.rotate(key, to: "whsec_two", overlap: 60)
        #expect(try await here.receiver(key)?.secrets == ["whsec_two", "whsec_one"])
        #expect(try await elsewhere.receiver(key)?.secrets == ["whsec_one"])
        advance(replicas, seconds: 6)
        #expect(try await elsewhere.receiver(key)?.secrets == ["whsec_two", "whsec_one"])
        advance(replicas, seconds: 55)
        #expect(try await here.receiver(key)?.secrets == ["whsec_two"])
        #expect(try await here.receiver(SourceKey(organization: UUID(), name: "crm")) == nil)
        #expect(try await replicas[0].store.sourceAdministration.delete(key))
        #expect(try await here.receiver(key) == nil)
    }

    @Test func `requests with invented names do not delay other sources`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let key = try await make(in: organization.id, gateway, secret: "whsec_one")
        let receivers = gateway.store.receivers
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<1_000 {
                group.addTask {
                    try await receivers.receiver(SourceKey(organization: UUID(), name: "crm")) == nil
                }
            }
            group.addTask { try await receivers.receiver(key)?.secrets == ["whsec_one"] }
            for try await isRight in group { #expect(isRight) }
        }
    }

    // MARK: - Operators

    @Test func `an organization has at most twenty sources, and a source keeps its kind`() async throws {
        let gateway = try await Gateway()
        let (organization, other) = (try await gateway.organization(), try await gateway.organization())
        let administration = gateway.store.sourceAdministration
        for number in 0..<SourceAdministration.maximumSources {
            _ = try await make(.webhook, "s\(number)", in: organization.id, gateway, secret: "whsec_x")
        }
        let one = SourceKey(organization: organization.id, name: "one-more")
        let update = SourceUpdate(settings: try Self.settings(), secret: "whsec_x")
        await #expect(throws: Problem.self) { _ = try await administration.put(one, update) }
        #expect(try await administration.list(in: organization.id)?.count == SourceAdministration.maximumSources)
        #expect(try await administration.list(in: other.id)?.isEmpty == true)
        #expect(try await administration.list(in: UUID()) == nil)
        #expect(try await administration.put(SourceKey(organization: UUID(), name: "x"), update) == nil)
        let another = SourceKey(organization: organization.id, name: "s0")
        let kind = SourceUpdate(settings: try Self.settings(.postgres), secret: "postgres://x")
        await #expect {
            _ = try await administration.put(another, kind)
        } throws: { ($0 as? Problem)?.errors.first?.pointer == "/kind" }
        let foreign = SourceKey(organization: other.id, name: "s0")
        #expect(try await administration.source(foreign) == nil)
        #expect(try await administration.delete(foreign) == false)
        #expect(try await administration.rotate(foreign, to: "whsec_y", overlap: 0) == nil)
        #expect(try await administration.run(another, from: .anew) == nil)
    }

    @Test func `a source's secrets are encrypted, and sealed again with the data`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await gateway.organization()
        let key = try await make(in: organization.id, gateway, secret: "whsec_first")
        _ = try await gateway.store.sourceAdministration.rotate(key, to: "whsec_second", overlap: 60)
        #expect(try await gateway.database.mentions(of: "whsec_first") == [:])
        #expect(try await gateway.store.receivers.receiver(key)?.secrets == ["whsec_second", "whsec_first"])
        #expect(try await gateway.store.keyRotation.renew(organization.id) == 2)
        let sealed = try await gateway.store.keyRotation.sealRows(of: organization.id, grace: 0) { _ in }
        #expect(sealed?.unreadable == 0 && sealed?.droppedKeys == 1)
        #expect(try await gateway.database.mentions(of: "sluice-sealed:1:1:") == [:])
        gateway.clock.advance(seconds: 6)
        #expect(try await gateway.store.receivers.receiver(key)?.secrets == ["whsec_second", "whsec_first"])
    }

    @Test func `a purge deletes the organization's sources and no others`() async throws {
        let gateway = try await Gateway()
        let (organization, other) = (try await gateway.organization(), try await gateway.organization())
        _ = try await make(in: organization.id, gateway, secret: "whsec_x")
        let kept = try await make(in: other.id, gateway, secret: "whsec_x")
        #expect(try await gateway.store.administration.extent(of: organization.id).map(\.table) == ["sources"])
        #expect(try await gateway.store.administration.purge(organization.id))
        #expect(try await gateway.database.mentions(of: organization.id.lowercased) == [:])
        #expect(try await gateway.store.sourceAdministration.source(kept) != nil)
    }

    @Test func `the catalog reports whether an organization has an enabled source`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        #expect(try await gateway.store.catalog.entry(organization.id).hasSources == false)
        let key = try await make(in: organization.id, gateway, secret: "whsec_x")
        #expect(try await gateway.store.catalog.entry(organization.id).hasSources)
        let update = SourceUpdate(settings: try Self.settings(), isEnabled: false)
        _ = try await gateway.store.sourceAdministration.put(key, update)
        #expect(try await gateway.store.catalog.entry(organization.id).hasSources == false)
    }

    // MARK: - Statements

    @Test(.onOneServer("plans of one server"), arguments: [false, true])
    func `the statements look up rows by index`(isGrown: Bool) async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let key = "'\(organization.id)', 'crm'"
        let now = "'2026-11-20T07:00:00Z'"
        let values: [(Statement, String)] = [
            (SourceStatements.due, "'poller', \(now), '1970-01-01T00:00:00Z', '\(UUID.least)', '', 500"),
            (SourceStatements.claim, "\(key), 'poller', \(now), \(now)"), (SourceStatements.renew, "\(key), 1, \(now)"),
            (SourceStatements.isHeld, "\(key), 1, \(now)"),
            (SourceStatements.progress, "\(key), 1, \(now), '{}', \(now), \(now), \(now)"),
            (SourceStatements.succeed, "\(key), 1, \(now), '{}', \(now), \(now), NULL, \(now)"),
            (SourceStatements.fail, "\(key), 1, \(now), 'x', \(now), NULL, \(now)"),
            (SourceStatements.release, "\(key), 1, \(now)"),
            (SourceAdminStatements.get, "\(key), \(now)"), (SourceAdminStatements.delete, key),
            (SourceReceivers.statements[0], "ARRAY['\(organization.id)']::uuid[], ARRAY['crm']"),
            (ServiceTokens.statements[0], "ARRAY['\(organization.id)']::uuid[], ARRAY['\(UUID())']::uuid[]"),
        ]
        if isGrown {
            try await connection.execute(
                script: """
                    INSERT INTO organizations (id, name, status, settings, created_at, updated_at)
                    SELECT gen_random_uuid(), 'x', 'active', '{}', now(), now() FROM generate_series(1, 500);
                    INSERT INTO sources (organization_id, name, kind, status, settings, next_run_at, created_at, updated_at)
                    SELECT o.id, 's' || n, 'poller', 'enabled', '{}', timestamptz '2030-01-01T00:00:00Z', now(), now()
                    FROM organizations o, generate_series(1, 20) n;
                    INSERT INTO service_tokens (organization_id, id, source, secret_hash, created_at)
                    SELECT o.id, gen_random_uuid(), 's' || n, sha256('x'), now() FROM organizations o, generate_series(1, 20) n
                    """
            )
        }
        for (statement, parameters) in values {
            let plan = try await connection.explain(statement, parameters, [.planByIndex])
            #expect(!plan.contains("Seq Scan") && pages(in: plan) < 200, "\(plan)")
        }
    }
}
