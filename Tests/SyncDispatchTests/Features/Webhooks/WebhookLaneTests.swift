import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncDispatch
@testable import SyncStore
@testable import WebhooksFeature

/// Webhook messages about mutations that lanes run.
@Suite struct WebhookLaneTests {
    private func endpoint(_ harness: DispatcherHarness) async throws -> WebhookKey {
        let row = try await harness.gateway.store.webhookAdministration.add(
            to: harness.organization.id,
            WebhookUpdate(),
            url: "https://hooks.example/",
            secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        )
        return WebhookKey(organization: harness.organization.id, id: try #require(row).id)
    }

    private func reported(_ harness: DispatcherHarness, _ endpoint: WebhookKey) async throws -> [WebhookDeliveryRow] {
        let page = try await harness.gateway.store.webhookAdministration
            .deliveries(of: endpoint, nil, limit: 100, after: nil)
        return (page?.deliveries ?? []).reversed()
    }

    @Test func `a refusal by the upstream is announced with its outcome, and then the halt`() async throws {
        let harness = try await DispatcherHarness(
            settings: #"{"on_failure":"halt"}"#,
            upstream: FakeUpstream { request, _ in request.text.contains(#""bad""#) ? .status(422) : nil }
        )
        let endpoint = try await endpoint(harness)
        let (good, bad) = (harness.create(), harness.create(payload: #"{"title":"bad"}"#))
        try await harness.phone.push([good, bad])
        try await harness.mutation(bad.id, is: .failed)
        let reported = try await reported(harness, endpoint)
        #expect(reported.map(\.event) == [.mutationFailed, .laneHalted])
        let data = try JSONTree(parsing: reported[0].data).root
        #expect(data["mutation_id"]?.uuid == bad.id && data["user_id"]?.uuid == harness.phone.user)
        #expect(data["response_status"]?.int64 == 422 && data["attempt_count"]?.int64 == 1)
        #expect(data["code"]?.string == "upstream_rejected")
        #expect(!String(decoding: reported[0].data, as: UTF8.self).contains(#""title""#))
    }

    @Test func `failures that one step writes are announced in its order`() async throws {
        let settings = #"{"order":"dependencies","max_in_flight_per_user":4,"on_failure":"halt"}"#
        let harness = try await DispatcherHarness(settings: settings, isRunning: false)
        let endpoint = try await endpoint(harness)
        let entries = (0..<3).map { _ in harness.create() }
        try await harness.phone.push(entries)
        var progress = LaneProgress()
        let (lanes, worker) = (harness.gateway.store.lanes, UUID())
        let flights = try await lanes.step(.claim, of: harness.key, worker: worker, progress: progress).dispatches
        progress.step = 1
        let results = flights.map { RequestResult($0, harness.outcome(.status(422), to: $0)) }
        _ = try await lanes.step(.settle(results), of: harness.key, worker: worker, progress: progress)
        let reported = try await reported(harness, endpoint)
        #expect(reported.map(\.event) == [.mutationFailed, .laneHalted, .mutationFailed, .mutationFailed])
        let mutations = try reported.map { try JSONTree(parsing: $0.data).root["mutation_id"]?.uuid }
        #expect(mutations == [entries[0], entries[0], entries[1], entries[2]].map(\.id))
    }

    /// The tables are locked, so a read of them would hang.
    @Test func `a mutation that the upstream accepts looks up no endpoints`() async throws {
        let harness = try await DispatcherHarness()
        _ = try await endpoint(harness)
        let closed = try await harness.gateway.database.connect()
        try await closed.execute(script: "BEGIN; LOCK webhook_endpoints, webhook_deliveries IN ACCESS EXCLUSIVE MODE")
        let entries = [harness.create(), harness.create()]
        try await harness.phone.push(entries)
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        await closed.closeAndWait()
    }
}
