import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import EncryptionFeature
@testable import RetentionFeature
@testable import SyncStore
@testable import WebhooksFeature

/// What workers read and write: under a lease, with sequence numbers, and only for their endpoint.
@Suite struct WebhookStoreTests {
    /// An organization that continues after failures, with an endpoint and some failures to announce.
    private func stage(
        _ count: Int = 3,
        _ events: [WebhookEvent] = [.mutationFailed],
        in gateway: Gateway? = nil
    ) async throws -> (gateway: Gateway, phone: Phone, endpoint: WebhookKey) {
        let gateway = if let gateway { gateway } else { try await Gateway() }
        let phone = Phone(gateway, try await gateway.organization(#"{"on_failure":"continue"}"#))
        let endpoint = try await gateway.webhook(phone.organization, events)
        for _ in 0..<count {
            try await phone.push([phone.failing()])
            gateway.clock.advance(seconds: 0.001)
        }
        return (gateway, phone, endpoint)
    }

    @Test func `deliveries receive numbers when they are first claimed, and keep them`() async throws {
        let (gateway, phone, endpoint) = try await stage()
        let webhooks = gateway.store.webhooks
        #expect(try await webhooks.due(after: nil).due == [endpoint])
        var lease = try #require(try await webhooks.claim(endpoint))
        #expect(lease.secrets == ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] && lease.url == "https://hooks.example/")
        let first = try #require(try await gateway.step(lease))
        #expect(first.deliveries.map(\.sequence) == [1, 2, 3])
        #expect(try await gateway.reported(endpoint).map(\.sequence) == [1, 2, 3])
        let last = try await gateway.step(lease, first.deliveries, answering: .status(500, retryAt: nil))
        #expect(try #require(last).deliveries.isEmpty)
        #expect(try await gateway.reported(endpoint).allSatisfy { $0.status == .waiting && $0.attemptCount == 1 })
        #expect(try await webhooks.due(after: nil).due.isEmpty)
        gateway.clock.advance(seconds: 6)
        try await phone.push([phone.failing()])
        lease = try #require(try await webhooks.claim(endpoint))
        let again = try #require(try await gateway.step(lease))
        #expect(again.deliveries.map(\.sequence) == [1, 2, 3, 4])
        #expect(again.deliveries.prefix(3).map(\.id) == first.deliveries.map(\.id))
        #expect(again.deliveries.map(\.attemptCount) == [1, 1, 1, 0])
        _ = try await gateway.step(lease, again.deliveries)
        let reported = try await gateway.reported(endpoint)
        #expect(reported.allSatisfy { $0.status == .delivered && $0.settledAt != nil && $0.lastStatus == 200 })
        #expect(try await webhooks.due(after: nil).due.isEmpty)
        let row = try #require(try await gateway.store.webhookAdministration.endpoint(endpoint))
        #expect(row.lastSequence == 4 && row.failureCount == 0)
    }

    @Test func `one worker holds an endpoint, and a late one writes nothing`() async throws {
        let (gateway, _, endpoint) = try await stage(1)
        let other = try await Gateway(replicaOf: gateway)
        let lost = try #require(try await gateway.store.webhooks.claim(endpoint))
        let taken = try #require(try await gateway.step(lost)).deliveries
        #expect(try await other.store.webhooks.claim(endpoint) == nil)
        #expect(try await gateway.store.webhooks.due(after: nil).due.isEmpty)
        // the worker was killed; when its lease has ended, another worker sends the same messages again
        gateway.clock.advance(seconds: WebhookStore.leaseSeconds + 1)
        other.clock.set(gateway.clock.now)
        #expect(try await other.store.webhooks.due(after: nil).due == [endpoint])
        let lease = try #require(try await other.store.webhooks.claim(endpoint))
        let again = try #require(try await other.step(lease)).deliveries
        #expect(again.map(\.id) == taken.map(\.id) && again.map(\.sequence) == taken.map(\.sequence))
        #expect(try await gateway.step(lost, taken, answering: .status(410, retryAt: nil)) == nil)
        #expect(try await gateway.reported(endpoint)[0].status == .waiting)
        _ = try await other.step(lease, again)
        #expect(try await gateway.reported(endpoint)[0].status == .delivered)
        #expect(try await gateway.store.webhookAdministration.endpoint(endpoint)?.status == .enabled)
    }

    @Test func `410 disables the endpoint until an operator enables it again`() async throws {
        let (gateway, phone, endpoint) = try await stage(2)
        let lease = try #require(try await gateway.store.webhooks.claim(endpoint))
        let taken = try #require(try await gateway.step(lease)).deliveries
        let outcome = WebhookSchedule.outcome(
            of: taken[0],
            .status(410, retryAt: nil),
            now: gateway.clock.now,
            jitter: 0
        )
        let step = try await gateway.store.webhooks.step(lease, [outcome], answers: [.status(410, retryAt: nil)])
        #expect(try #require(step).deliveries.isEmpty)
        #expect(try await gateway.store.webhookAdministration.endpoint(endpoint)?.status == .gone)
        try await phone.push([phone.failing()])
        let reported = try await gateway.reported(endpoint)
        #expect(reported.map(\.status) == [.dead, .waiting], "no new event is announced")
        gateway.clock.advance(seconds: 86_400)
        #expect(try await gateway.store.webhooks.due(after: nil).due.isEmpty)
        #expect(try await gateway.store.webhooks.claim(endpoint) == nil)
        var update = WebhookUpdate()
        update.isEnabled = true
        let row = try await gateway.store.webhookAdministration.change(endpoint, update)
        #expect(row?.status == .enabled && row?.lastError == nil)
        #expect(try await gateway.store.webhooks.due(after: nil).due == [endpoint])
    }

    @Test func `sends nothing for an organization that is not served`() async throws {
        let (gateway, phone, endpoint) = try await stage(1)
        let body = Array(#"{"status":"suspended"}"#.utf8)
        _ = try await gateway.store.administration.put(phone.organization.id, OrganizationUpdate(body: body))
        #expect(try await gateway.store.webhooks.claim(endpoint) == nil)
    }

    @Test func `dead letters are retried as new deliveries`() async throws {
        let (gateway, _, endpoint) = try await stage(3)
        let administration = gateway.store.webhookAdministration
        try await gateway.execute(
            """
            UPDATE webhook_deliveries SET status = 'dead', settled_at = tried_since, attempt_count = 10, last_error = 'x'
            """
        )
        let dead = try await gateway.reported(endpoint, .dead)
        #expect(dead.count == 3)
        let stranger = WebhookKey(organization: try await gateway.organization().id, id: endpoint.id)
        #expect(try await administration.retry(dead[0].id, of: stranger) == .notFound)
        #expect(try await administration.retryAll(of: stranger) == nil)
        #expect(try await administration.retry(UUID(), of: endpoint) == .notFound)
        #expect(try await administration.retry(dead[0].id, of: endpoint) == .retried)
        #expect(try await administration.retry(dead[0].id, of: endpoint) == .notDead)
        #expect(try await gateway.reported(endpoint, .waiting).map(\.id) == [dead[0].id])
        #expect(try await gateway.reported(endpoint, .waiting)[0].attemptCount == 0)
        #expect(try await administration.retryAll(of: endpoint) == 2)
        #expect(try await administration.retryAll(of: endpoint) == 0)
        #expect(try await gateway.reported(endpoint, .dead).isEmpty)
    }

    @Test func `an integer id of the API is an integer in messages`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let endpoint = try await gateway.webhook(organization, [.entityChanged])
        let source = EventSource(gateway, organization)
        let events = [EventSource.event("a", "4711", version: 1), EventSource.event("b", #""4712""#, version: 1)]
        #expect(try await source.results(events) == ["applied", "applied"])
        let lease = try #require(try await gateway.store.webhooks.claim(endpoint))
        let deliveries = try #require(try await gateway.step(lease)).deliveries
        let ids = try deliveries.map { try JSONTree(parsing: $0.data).root["server_id"]?.text }
        #expect(ids == ["4711", #""4712""#])
    }

    @Test func `announces entities from the feed, each in its last state, from the subscription on`() async throws {
        let (gateway, phone, endpoint) = try await stage(0, [.entityChanged])
        let stranger = Phone(gateway, try await gateway.organization())
        _ = try await gateway.webhook(stranger.organization, [.mutationFailed])
        let webhooks = gateway.store.webhooks
        #expect(try await webhooks.behind(after: nil).due.isEmpty)
        let created = try await phone.push([phone.create(payload: #"{"title":"unsayable"}"#), phone.create()]).results
        try await stranger.push([stranger.create()])
        let id = try #require(created[0].serverID)
        try await phone.push([phone.entry("update", server: #""\#(id)""#)])
        #expect(try await webhooks.behind(after: nil).due == [endpoint])
        #expect(try await gateway.reported(endpoint).isEmpty)
        let lease = try #require(try await webhooks.claim(endpoint))
        let step = try #require(try await gateway.step(lease))
        #expect(step.deliveries.map(\.event) == [.entityChanged, .entityChanged])
        #expect(step.deliveries.map(\.sequence) == [1, 2])
        let last = try JSONTree(parsing: step.deliveries[1].data).root
        #expect(last["server_id"]?.string == id && last["version"]?.int64 == 2 && last["deleted"]?.bool == false)
        #expect(last["updated_by"]?.uuid == phone.user && last["feed_position"]?.int64 != nil)
        #expect(!String(decoding: step.deliveries.flatMap(\.data), as: UTF8.self).contains("unsayable"))
        #expect(try await webhooks.behind(after: nil).due.isEmpty)
        #expect(try #require(try await gateway.step(lease, step.deliveries)).deliveries.isEmpty)

        // an unsubscribed endpoint that subscribes again starts at the current position
        var update = WebhookUpdate()
        update.events = [.mutationFailed]
        _ = try await gateway.store.webhookAdministration.change(endpoint, update)
        try await phone.push([phone.entry("delete", server: #""\#(id)""#)])
        #expect(try await webhooks.behind(after: nil).due.isEmpty)
        update.events = [.entityChanged]
        _ = try await gateway.store.webhookAdministration.change(endpoint, update)
        #expect(try await webhooks.behind(after: nil).due.isEmpty)
        // after a restore the feed has a new epoch
        try await gateway.execute(
            "UPDATE feeds SET epoch = epoch + 1 WHERE organization_id = '\(phone.organization.id)'"
        )
        #expect(try await webhooks.behind(after: nil).due == [endpoint])
        let fresh = try #require(try await webhooks.claim(endpoint))
        #expect(try #require(try await gateway.step(fresh)).deliveries.isEmpty)
        #expect(try await webhooks.behind(after: nil).due.isEmpty)
    }

    @Test func `a search resumes where it ended, despite one endpoint's backlog`() async throws {
        let gateway = try await Gateway()
        var endpoints: [WebhookKey] = []
        for _ in 0..<3 { endpoints.append(try await stage(1, in: gateway).endpoint) }
        try await gateway.execute(
            """
            INSERT INTO webhook_deliveries (organization_id, endpoint_id, id, event, data, occurred_at, status,
                tried_since, next_attempt_at)
            SELECT d.organization_id, d.endpoint_id, gen_random_uuid(), d.event, d.data, d.occurred_at, d.status,
                d.tried_since, d.next_attempt_at
            FROM webhook_deliveries d, generate_series(1, 2000)
            """
        )
        let found = try await gateway.store.webhooks.due(after: nil)
        #expect(found.due == endpoints.sorted() && found.next == nil)
        #expect(
            try await gateway.store.webhooks.due(after: endpoints.sorted()[0]).due == Array(endpoints.sorted()[1...])
        )
    }

    @Test func `secrets are encrypted, and sealed again with the data`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let (_, _, endpoint) = try await stage(1, in: gateway)
        let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        #expect(try await gateway.database.mentions(of: text) == [:])
        let rotated = "whsec_" + String(repeating: "QUFB", count: 8)
        let row = try await gateway.store.webhookAdministration.rotate(endpoint, to: rotated, overlap: 60)
        #expect(row?.previousSecretUntil == gateway.clock.now.adding(seconds: 60))
        var lease = try #require(try await gateway.store.webhooks.claim(endpoint))
        #expect(lease.secrets == [rotated, text])
        _ = try await gateway.step(lease, releases: true)
        #expect(try await gateway.store.keyRotation.renew(endpoint.organization) == 2)
        let sealed = try await gateway.store.keyRotation.sealRows(of: endpoint.organization, grace: 0) { _ in }
        #expect(sealed?.unreadable == 0 && sealed?.droppedKeys == 1)
        #expect(try await gateway.database.mentions(of: "sluice-sealed:1:1:") == [:])
        gateway.clock.advance(seconds: 61)
        lease = try #require(try await gateway.store.webhooks.claim(endpoint))
        #expect(lease.secrets == [rotated], "the previous one has ended")
    }

    @Test func `a purge and a deletion leave nothing`() async throws {
        let (gateway, phone, endpoint) = try await stage(3)
        let kept = try await stage(1, in: gateway).endpoint
        let second = try await gateway.webhook(phone.organization)
        #expect(try await gateway.store.webhookAdministration.delete(endpoint))
        #expect(try await !gateway.store.webhookAdministration.delete(endpoint))
        let foreign = WebhookKey(organization: kept.organization, id: second.id)
        #expect(try await !gateway.store.webhookAdministration.delete(foreign))
        #expect(try await gateway.store.webhookAdministration.endpoint(second) != nil)
        try await phone.push([phone.failing()])
        #expect(try await gateway.store.administration.purge(phone.organization.id))
        #expect(try await gateway.database.mentions(of: phone.organization.id.lowercased) == [:])
        #expect(try await gateway.reported(kept).count == 1)
    }

    /// A push that read the endpoint before its deletion can still add deliveries for it afterwards.
    @Test func `deletes waiting deliveries of a deleted endpoint`() async throws {
        let (gateway, _, endpoint) = try await stage(2)
        try await gateway.execute("DELETE FROM webhook_endpoints")
        #expect(try await gateway.store.webhooks.claim(endpoint) == nil)
        try await gateway.store.webhooks.dispose(of: endpoint)
        #expect(try await gateway.database.mentions(of: endpoint.id.lowercased) == [:])
    }

    @Test func `keeps delivered messages for a week, and all others for a month`() async throws {
        let (gateway, phone, endpoint) = try await stage(4)
        let kept = try await stage(2, in: gateway)
        let ids = try await gateway.reported(endpoint).map(\.id)
        try await gateway.execute(
            """
            UPDATE webhook_deliveries SET settled_at = occurred_at,
                status = CASE WHEN id IN ('\(ids[0])', '\(ids[1])') THEN 'delivered' ELSE 'dead' END
            WHERE endpoint_id = '\(endpoint.id)' AND id <> '\(ids[3])'
            """
        )
        gateway.clock.advance(seconds: 7 * 86_400 - 60)
        #expect(try await gateway.retain()?.report[.deliveries] == 0)
        gateway.clock.advance(seconds: 120)
        #expect(try await gateway.retain(isDryRun: true)?.report[.deliveries] == 2)
        #expect(try await gateway.retain()?.report[.deliveries] == 2)
        #expect(try await gateway.reported(endpoint).map(\.id) == [ids[2], ids[3]])
        try await phone.push([phone.failing()])
        gateway.clock.advance(seconds: 23 * 86_400)
        #expect(try await gateway.retain()?.report[.deliveries] == 4)
        #expect(try await gateway.reported(endpoint).count == 1)
        #expect(try await gateway.reported(kept.endpoint).isEmpty)
    }

    @Test func `limits the endpoints of an organization`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        for _ in 0..<WebhookAdministration.maximumEndpoints { _ = try await gateway.webhook(organization) }
        let problem = await #expect(throws: Problem.self) { try await gateway.webhook(organization) }
        #expect(problem?.code == .validationFailed)
    }

    // MARK: - Plans

    /// On small tables, and on grown ones without statistics: rows are found by keys, and partitions are pruned.
    @Test(.onOneServer("plans of one server"), arguments: [0, 20_000])
    func `the statements look up rows by index`(rows: Int) async throws {
        let (gateway, _, endpoint) = try await stage(2, [.mutationFailed, .entityChanged])
        try await gateway.execute(
            """
            INSERT INTO webhook_deliveries (organization_id, endpoint_id, id, event, data, occurred_at, status,
                tried_since, next_attempt_at, settled_at)
            SELECT d.organization_id, d.endpoint_id, gen_random_uuid(), d.event, d.data, d.occurred_at,
                CASE WHEN n % 3 = 0 THEN 'waiting' ELSE 'dead' END, d.tried_since, d.next_attempt_at,
                CASE WHEN n % 3 <> 0 THEN d.tried_since END
            FROM (SELECT * FROM webhook_deliveries LIMIT 1) d, generate_series(1, \(rows)) n
            """
        )
        let connection = try await gateway.database.connect(settings: Store.hotSettings)
        defer { connection.close() }
        let key = "'\(endpoint.organization)', '\(endpoint.id)'"
        let lists = "'{\(endpoint.organization)}', '{\(endpoint.id)}'"
        let (id, now) = (UUID(), "'2026-11-20T07:00:00Z'")
        let calls: [(Statement, String)] = [
            (
                WebhookOutbox.recordStatement,
                "'{\(endpoint.organization)}', '{\(id)}', '{mutation.failed}', ARRAY['{}'::json], \(now)"
            ),
            (
                WebhookOutbox.upstreamDownStatement,
                "'{\(endpoint.organization)}', '{\(id)}', '{upstream.down}', ARRAY['{}'::json], \(now)"
            ),
            (
                WebhookOutbox.upstreamUpStatement,
                "'{\(endpoint.organization)}', '{\(id)}', '{upstream.up}', ARRAY['{}'::json], \(now)"
            ),
            (WebhookStatements.claim, "\(key), \(now), \(now)"),
            (WebhookStatements.lock, "\(key), 0, \(now)"),
            (WebhookStatements.find, "\(key), 0, \(now), '{\(id)}'"),
            (WebhookStatements.take, "\(key), '2030-01-01T00:00:00Z', 16"),
            (
                WebhookStatements.settle,
                "\(lists), '{\(id)}', '{dead}', '{1}', ARRAY[\(now)::timestamptz], '{500}', '{x}', \(now)"
            ),
            (WebhookStatements.number, "\(lists), '{\(id)}', '{1}'"),
            (WebhookStatements.entities, "'\(endpoint.organization)', 0, 1, 100"),
            (WebhookStatements.dispose, "\(key), 100"),
            (WebhookAdminStatements.page, "\(key), 'ffffffff-ffff-ffff-ffff-ffffffffffff', 10"),
            (WebhookAdminStatements.pageOfStatus, "\(key), 'ffffffff-ffff-ffff-ffff-ffffffffffff', 10, 'dead'"),
            (WebhookAdminStatements.retry, "\(key), \(now), '\(id)'"),
            (WebhookAdminStatements.retryAll, "\(key), \(now), 10"),
            (WebhookAdminStatements.deleteDeliveries, "\(key), 10"),
        ]
        for (statement, values) in calls {
            let plan = try await connection.explain(statement, values, [.planByIndex])
            #expect(
                !plan.contains("Seq Scan") && !plan.contains("Hash Join") && !plan.contains("Merge Join"),
                "\(plan)"
            )
            // finds the few rows without reading the endpoint's thousands
            #expect(pages(in: plan) < 400, "\(plan)")
        }
        let search = try await connection.explain(
            WebhookStatements.due,
            "'\(UUID.least)', '\(UUID.least)', \(now), 500",
            [.planByIndex]
        )
        #expect(!search.contains("Seq Scan") && pages(in: search) < 200, "\(search)")
    }
}
