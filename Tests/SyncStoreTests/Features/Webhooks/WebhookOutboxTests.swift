import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import GroupCommit
@testable import SyncStore
@testable import WebhooksFeature

/// Webhook messages are written in the transaction of their cause, and only for endpoints that subscribe to the event.
@Suite struct WebhookOutboxTests {
    @Test func `a failure and the halt that it causes are announced`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"on_failure":"halt"}"#))
        let endpoint = try await gateway.webhook(phone.organization)
        let failing = phone.failing()
        #expect(try await phone.push([failing]).results[0].status == "failed")
        let reported = try await gateway.reported(endpoint)
        #expect(reported.map(\.event) == [.mutationFailed, .laneHalted])
        #expect(reported.allSatisfy { $0.status == .waiting && $0.sequence == nil && $0.attemptCount == 0 })
        let data = try reported[0].json
        #expect(data["mutation_id"]?.uuid == failing.id)
        #expect(data["user_id"]?.uuid == phone.user)
        #expect(data["device_id"]?.uuid == phone.device)
        #expect(data["operation"]?.string == "update" && data["entity_type"]?.string == "task")
        #expect(data["code"]?.string != nil)
        #expect(try reported[1].json["mutation_id"]?.uuid == failing.id)
        // a repeat announces nothing
        try await phone.push([failing])
        #expect(try await gateway.reported(endpoint).count == 2)
    }

    @Test func `announces a conflict without the documents' content`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"on_conflict":"continue"}"#))
        let endpoint = try await gateway.webhook(phone.organization, [.mutationConflict])
        let made = try await phone.push([phone.create(payload: #"{"title":"unsayable"}"#)]).results[0]
        let id = try #require(made.serverID)
        let other = Phone(gateway, phone.organization)
        try await other.push([other.entry("update", server: #""\#(id)""#, payload: #"{"title":"unsayable"}"#)])
        let stale = phone.entry("update", server: #""\#(id)""#, extra: ["base_version": "1"])
        #expect(try await phone.push([stale]).results[0].status == "conflict")
        let reported = try await gateway.reported(endpoint)
        #expect(reported.map(\.event) == [.mutationConflict])
        #expect(try reported[0].json["server_id"]?.string == id)
        #expect(!String(decoding: reported[0].data, as: UTF8.self).contains("unsayable"))
    }

    @Test func `ignores successes, unsubscribed events and other organizations`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let stranger = Phone(gateway, try await gateway.organization())
        let endpoint = try await gateway.webhook(phone.organization, [.mutationConflict])
        let disabled = try await gateway.webhook(phone.organization)
        var update = WebhookUpdate()
        update.isEnabled = false
        _ = try await gateway.store.webhookAdministration.change(disabled, update)
        let foreign = try await gateway.webhook(stranger.organization)
        try await phone.push([phone.create(), phone.failing()])
        #expect(try await gateway.reported(endpoint).isEmpty)
        #expect(try await gateway.reported(disabled).isEmpty)
        #expect(try await gateway.reported(foreign).isEmpty)
        try await stranger.push([stranger.failing()])
        #expect(try await gateway.reported(foreign).map(\.event).first == .mutationFailed)
        #expect(try await gateway.reported(endpoint).isEmpty)
    }

    @Test func `each subscribed endpoint receives a message once, with the same id`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization(#"{"on_failure":"continue"}"#))
        var endpoints: [WebhookKey] = []
        for _ in 0..<3 { endpoints.append(try await gateway.webhook(phone.organization)) }
        try await phone.push([phone.failing(), phone.failing()])
        let reported = try await endpoints.asyncMap { try await gateway.reported($0).map(\.id) }
        #expect(reported[0].count == 2 && Set(reported).count == 1)
    }

    /// The hot path pays nothing: successes do not read the tables, which are locked here.
    @Test func `a success does not look up endpoints`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        _ = try await gateway.webhook(phone.organization)
        let closed = try await gateway.database.connect()
        try await closed.execute(script: "BEGIN; LOCK webhook_endpoints, webhook_deliveries IN ACCESS EXCLUSIVE MODE")
        let created = try await phone.push([phone.create(), phone.create()]).results
        #expect(created.map(\.status) == ["succeeded", "succeeded"])
        let id = try #require(created[0].serverID)
        let changed = try await phone.push([phone.entry("update", server: #""\#(id)""#)]).results
        #expect(changed[0].status == "succeeded")
        await closed.closeAndWait()
    }

    @Test func `announces a user's erasure in the transaction of the erasure`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let endpoint = try await gateway.webhook(organization, [.userErased])
        let user = UUID()
        let record = WebhookRecord.erased(user: user, of: organization.id, id: UUID())
        struct Undone: Error {}
        await #expect(throws: Undone.self) {
            try await gateway.store.pool.transaction { connection in
                _ = try await connection.run(WebhookOutbox.query([record], at: gateway.clock.now))
                throw Undone()
            }
        }
        #expect(try await gateway.reported(endpoint).isEmpty)
        try await gateway.store.pool.transaction { connection in
            _ = try await connection.run(WebhookOutbox.query([record], at: gateway.clock.now))
        }
        let reported = try await gateway.reported(endpoint)
        #expect(reported.map(\.event) == [.userErased] && reported.map(\.id) == [record.id])
        #expect(try reported[0].json["user_id"]?.uuid == user)
    }

    @Test func `an upstream's outage and recovery are announced once over all replicas`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let endpoint = try await gateway.webhook(organization, [.upstreamDown, .upstreamUp])
        let webhooks = gateway.store.webhooks
        try await webhooks.record(upstream: organization.id, isDown: true, reason: "unreachable")
        #expect(try await gateway.reported(endpoint).isEmpty, "the organization has no upstream")
        try await gateway.execute(
            """
            INSERT INTO upstreams (organization_id, base_url, timeout_seconds, max_concurrency, id_pointer, headers,
                updated_at)
            VALUES ('\(organization.id)', 'http://upstream.invalid', 30, 64, '/id', '{}', now())
            """
        )
        try await webhooks.record(upstream: organization.id, isDown: false, reason: nil)
        for _ in 0..<2 {
            gateway.clock.advance(seconds: 1)
            try await webhooks.record(upstream: organization.id, isDown: true, reason: "unreachable")
        }
        for _ in 0..<2 {
            gateway.clock.advance(seconds: 1)
            try await webhooks.record(upstream: organization.id, isDown: false, reason: nil)
        }
        let reported = try await gateway.reported(endpoint)
        #expect(reported.map(\.event) == [.upstreamDown, .upstreamUp])
        #expect(try reported[0].json["reason"]?.string == "unreachable")
    }
}
