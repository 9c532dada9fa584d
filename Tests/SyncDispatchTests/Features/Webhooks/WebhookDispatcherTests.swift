import Foundation
import JSONText
import Logging
import Postgres
import ServiceLifecycle
import StoreSupport
import SyncHTTP
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncDispatch
@testable import SyncStore
@testable import WebhooksFeature

/// Deliveries by couriers on a test clock, to endpoints with scripted answers.
@Suite struct WebhookDispatcherTests {
    /// Endpoints, and the messages sent to them.
    private final class Receiver: Sendable {
        private let received = Mutex([(endpoint: WebhookKey, delivery: WebhookDelivery)]())
        private let answer: @Sendable (WebhookKey, WebhookDelivery, _ number: Int) async -> WebhookAnswer

        init(_ answer: @escaping @Sendable (WebhookKey, WebhookDelivery, _ number: Int) async -> WebhookAnswer) {
            self.answer = answer
        }

        convenience init(_ status: Int = 200) {
            self.init { _, _, _ in .status(status, retryAt: nil) }
        }

        var deliveries: [WebhookDelivery] { received.withLock { $0.map(\.delivery) } }
        func deliveries(to endpoint: WebhookKey) -> [WebhookDelivery] {
            received.withLock { $0.filter { $0.endpoint == endpoint }.map(\.delivery) }
        }

        var post: WebhookDispatcher.WebhookTransport {
            WebhookDispatcher.WebhookTransport { _ in
                WebhookDispatcher.WebhookTransport.Session { delivery, lease in
                    let number = self.received.withLock { received in
                        received.append((lease.endpoint, delivery))
                        return received.count
                    }
                    return await self.answer(lease.endpoint, delivery, number)
                } close: {
                }
            }
        }
    }

    private func dispatcher(
        _ gateway: Gateway,
        _ receiver: Receiver,
        _ configure: (inout WebhookDispatcher.Configuration) -> Void = { _ in }
    ) -> (dispatcher: WebhookDispatcher, group: ServiceGroup, run: Task<Void, Never>) {
        let clock = gateway.clock
        var configuration = WebhookDispatcher.Configuration(now: { clock.now })
        configuration.pollInterval = 0.02
        configuration.grace = 0.1
        configure(&configuration)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let dispatcher = WebhookDispatcher(
            store: gateway.store.webhooks,
            post: receiver.post,
            configuration: configuration,
            logger: logger
        )
        let group = ServiceGroup(services: [dispatcher], logger: logger)
        return (dispatcher, group, Task { try? await group.run() })
    }

    private func endpoint(_ gateway: Gateway, _ organization: Organization) async throws -> WebhookKey {
        let row = try await gateway.store.webhookAdministration.add(
            to: organization.id,
            WebhookUpdate(),
            url: "https://hooks.example/",
            secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
        )
        return WebhookKey(organization: organization.id, id: try #require(row).id)
    }

    private func fail(_ phone: Phone, _ count: Int = 1) async throws {
        let entries = (0..<count).map { _ in phone.entry("update", server: #""\#(UUID().lowercased)""#) }
        try await phone.push(entries)
    }

    private func phone(_ gateway: Gateway) async throws -> Phone {
        Phone(gateway, try await gateway.organization(#"{"on_failure":"continue"}"#))
    }

    @Test func `hanging receivers leave places for another organization`() async throws {
        let gateway = try await Gateway()
        let (gate, answered) = (Gate(), Shared<UUID?>(nil))
        let receiver = Receiver { endpoint, _, _ in
            if endpoint.organization != answered.value { await gate.pass() }
            return .status(200, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver) { ($0.places, $0.maxConcurrentPerOrganization) = (2, 1) }
        for _ in 0..<4 {
            let phone = try await phone(gateway)
            _ = try await endpoint(gateway, phone.organization)
            try await fail(phone)
        }
        try await waitUntil("four requests hang") { receiver.deliveries.count == 4 }
        try await waitUntil("the requests occupy no places") { running.dispatcher.loop.places.awaiting == 4 }
        let other = try await phone(gateway)
        answered.value = other.organization.id
        let endpoint = try await endpoint(gateway, other.organization)
        try await fail(other)
        try await waitUntil("the message is delivered") {
            let rows = try await rows(gateway, endpoint)
            return rows.count == 1 && rows.allSatisfy { $0.settledAt != nil }
        }
        #expect(running.dispatcher.loop.places.count >= 4)
        gate.open()
        await running.group.triggerGracefulShutdown()
        await running.run.value
    }

    private enum Act: CaseIterable {
        case delete, disable, change, suspend, erase
    }

    /// In earlier versions, a worker sent all its claimed messages, however long that took.
    @Test(arguments: Act.allCases) private func `changes during deliveries apply to claimed messages`(_ act: Act)
        async throws
    {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        try await fail(phone, 12)
        let gate = Gate()
        let receiver = Receiver { _, _, _ in
            await gate.pass()
            return .status(200, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver) { $0.recheckInterval = 0 }
        try await waitUntil("four messages are in flight") { receiver.deliveries.count == 4 }
        gateway.clock.advance(seconds: 1)
        let (webhooks, organization) = (gateway.store.webhookAdministration, phone.organization.id)
        switch act {
        case .delete: _ = try await webhooks.delete(endpoint)
        case .disable:
            var update = WebhookUpdate()
            update.isEnabled = false
            _ = try await webhooks.change(endpoint, update)
        case .change:
            var update = WebhookUpdate()
            update.url = "https://other.example/"
            _ = try await webhooks.change(endpoint, update)
        case .suspend:
            let update = try OrganizationUpdate(body: Array(#"{"status":"suspended"}"#.utf8))
            _ = try await gateway.store.administration.put(organization, update)
        case .erase:
            let connection = try await gateway.database.connect()
            let delete = "DELETE FROM webhook_deliveries WHERE organization_id = '\(organization)'"
            _ = try await connection.run(Query(Statement("", delete)))
            await connection.closeAndWait()
        }
        gate.open()
        if act == .change {
            // the messages go to the new address
            try await waitUntil("all messages are delivered") {
                try await rows(gateway, endpoint).allSatisfy { $0.settledAt != nil }
            }
        } else {
            try await waitUntil("no worker holds the endpoint") { running.dispatcher.loop.places.count == 0 }
            #expect(receiver.deliveries.count == 4)
        }
        await running.group.triggerGracefulShutdown()
        await running.run.value
    }

    private func rows(_ gateway: Gateway, _ endpoint: WebhookKey) async throws -> [WebhookDeliveryRow] {
        try await gateway.store.webhookAdministration
            .deliveries(of: endpoint, nil, limit: 1_000, after: nil)?.deliveries ?? []
    }

    @Test func `each event is delivered once, with numbers without gaps`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let receiver = Receiver()
        let running = dispatcher(gateway, receiver)
        try await fail(phone, 40)
        try await waitUntil("all messages are delivered") {
            try await rows(gateway, endpoint).filter { $0.status == .delivered }.count == 40
        }
        #expect(receiver.deliveries.map(\.sequence).sorted() == Array(1...40))
        #expect(Set(receiver.deliveries.map(\.id)).count == 40)
        await running.group.triggerGracefulShutdown()
        await running.run.value
    }

    @Test func `a failed delivery is retried under the same id and number`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let receiver = Receiver { _, _, number in .status(number < 4 ? 500 : 204, retryAt: nil) }
        let running = dispatcher(gateway, receiver)
        try await fail(phone)
        for (attempt, pause) in [(1, 5.5), (2, 316), (3, 1_891)] {
            try await waitUntil("attempt \(attempt) is written") {
                try await rows(gateway, endpoint).first?.attemptCount == Int16(attempt)
            }
            gateway.clock.advance(seconds: pause)
        }
        try await waitUntil("a message arrived") { try await rows(gateway, endpoint).first?.status == .delivered }
        #expect(receiver.deliveries.count == 4 && Set(receiver.deliveries.map(\.id)).count == 1)
        #expect(Set(receiver.deliveries.map(\.sequence)) == [1])
        #expect(receiver.deliveries.map(\.attemptCount) == [0, 1, 2, 3])
        running.run.cancel()
    }

    @Test func `after five failures attempts one delivery at a time until the endpoint recovers`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let isDown = Atomic(true)
        let receiver = Receiver { _, _, _ in
            isDown.load(ordering: .sequentiallyConsistent) ? .none("connecting timed out") : .status(200, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver)
        let administration = gateway.store.webhookAdministration
        try await fail(phone, 30)
        try await waitUntil("there is a pause") { try await administration.endpoint(endpoint)?.pausedUntil != nil }
        let sent = receiver.deliveries.count
        #expect(sent >= 5 && sent <= 5 * 4, "five rounds of up to four: \(sent)")
        #expect(try await administration.endpoint(endpoint)?.failureCount == 5)
        for probe in 1...3 {
            gateway.clock.advance(seconds: 700)
            try await waitUntil("probe \(probe)") {
                try await administration.endpoint(endpoint)?.failureCount ?? 0 >= Int32(5 + probe)
            }
            #expect(receiver.deliveries.count == sent + probe)
        }
        isDown.store(false, ordering: .sequentiallyConsistent)
        gateway.clock.advance(seconds: 20_000)
        try await waitUntil("all messages are delivered") {
            try await rows(gateway, endpoint).allSatisfy { $0.status == .delivered }
        }
        #expect(try await administration.endpoint(endpoint)?.failureCount == 0)
        running.run.cancel()
    }

    /// In earlier versions, twelve messages of one push counted as eight failures and caused a pause of 43 s.
    @Test func `parallel deliveries that fail together count as one failure`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let gate = Gate()
        let receiver = Receiver { _, _, number in
            if number <= 4 { await gate.pass() }
            return .status(500, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver)
        try await fail(phone, 12)
        try await waitUntil("four messages are in flight") { receiver.deliveries.count == 4 }
        gate.open()
        let administration = gateway.store.webhookAdministration
        try await waitUntil("the failures are written") {
            try await administration.endpoint(endpoint)?.failureCount ?? 0 >= 3
        }
        let row = try #require(try await administration.endpoint(endpoint))
        #expect(row.failureCount <= 5, "the first four are one failure, and a pause ends the rest: \(row.failureCount)")
        let longest = gateway.clock.now.adding(seconds: 6)
        #expect(row.pausedUntil.map { $0 <= longest } ?? true, "the first pause lasts 5 seconds")
        await running.group.triggerGracefulShutdown()
        await running.run.value
    }

    /// In earlier versions, such messages were sent again whenever the lease expired, and the endpoint counted as
    /// healthy.
    @Test func `messages whose outcomes cannot be written are sent again after growing pauses`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF NEW.attempt_count <> OLD.attempt_count THEN RAISE 'no'; END IF; RETURN NEW; END $$;
                CREATE TRIGGER refuse BEFORE UPDATE ON webhook_deliveries FOR EACH ROW EXECUTE FUNCTION refuse()
                """
        )
        let receiver = Receiver()
        let running = dispatcher(gateway, receiver) { $0.writeAttempts = Retry(2, milliseconds: 1...2) }
        try await fail(phone)
        let administration = gateway.store.webhookAdministration
        for count in 1...3 {
            try await waitUntil("failure \(count) is recorded") {
                try await administration.endpoint(endpoint)?.failureCount == Int32(count)
            }
            #expect(receiver.deliveries.count == count)
            gateway.clock.advance(seconds: WebhookStore.leaseSeconds + 1)
        }
        try await Task.sleep(for: .milliseconds(300))
        #expect(receiver.deliveries.count == 3, "the third pause lasts four minutes, longer than the lease")
        #expect(try await administration.endpoint(endpoint)?.failingSince != nil)
        gateway.clock.advance(seconds: 60)
        try await waitUntil("the message is sent again") {
            try await administration.endpoint(endpoint)?.failureCount == 4
        }
        try await connection.acceptRows(in: "refuse")
        connection.close()
        gateway.clock.advance(seconds: 500)
        try await waitUntil("a message arrived") { try await rows(gateway, endpoint).first?.status == .delivered }
        #expect(try await administration.endpoint(endpoint)?.failureCount == 0)
        await running.group.triggerGracefulShutdown()
        await running.run.value
    }

    @Test func `messages about one push are numbered in the user's order`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        _ = try await endpoint(gateway, phone.organization)
        let receiver = Receiver()
        let entries = (0..<20).map { _ in phone.entry("update", server: #""\#(UUID().lowercased)""#) }
        try await phone.push(entries)
        let running = dispatcher(gateway, receiver)
        try await waitUntil("all messages are delivered") { receiver.deliveries.count == 20 }
        let reported = try receiver.deliveries.sorted { $0.sequence < $1.sequence }.map {
            try JSONTree(parsing: $0.data).root["mutation_id"]?.string
        }
        #expect(reported == entries.map(\.id.lowercased))
        await running.group.triggerGracefulShutdown()
        await running.run.value
    }

    @Test func `a message expires after three days, and an operator can retry it`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let isDown = Atomic(true)
        let receiver = Receiver { _, _, _ in
            .status(isDown.load(ordering: .sequentiallyConsistent) ? 500 : 200, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver)
        let administration = gateway.store.webhookAdministration
        try await fail(phone, 30)
        try await waitUntil("there is a pause") { try await administration.endpoint(endpoint)?.pausedUntil != nil }
        gateway.clock.advance(seconds: 4 * 86_400)
        try await waitUntil("all have expired") { try await rows(gateway, endpoint).allSatisfy { $0.status == .dead } }
        isDown.store(false, ordering: .sequentiallyConsistent)
        #expect(try await administration.retryAll(of: endpoint) == 30)
        gateway.clock.advance(seconds: 700)
        try await waitUntil("all messages are delivered") {
            try await rows(gateway, endpoint).allSatisfy { $0.status == .delivered }
        }
        running.run.cancel()
    }

    @Test func `a hanging endpoint does not delay others`() async throws {
        let gateway = try await Gateway()
        let slow = try await phone(gateway)
        let other = try await phone(gateway)
        let gate = Gate()
        var hanging: [WebhookKey] = []
        for _ in 0..<5 { hanging.append(try await endpoint(gateway, slow.organization)) }
        let good = try await endpoint(gateway, other.organization)
        let hangs = Set(hanging)
        let receiver = Receiver { endpoint, _, _ in
            if hangs.contains(endpoint) { await gate.pass() }
            return .status(200, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver) {
            $0.places = 4
            $0.maxConcurrentPerOrganization = 2
        }
        try await fail(slow, 10)
        try await waitUntil("two requests hang") { running.dispatcher.loop.places.count == 2 }
        try await fail(other, 3)
        try await waitUntil("the other endpoint's messages are delivered") {
            try await rows(gateway, good).filter { $0.status == .delivered }.count == 3
        }
        #expect(running.dispatcher.loop.places.count <= 3)
        gate.open()
        for endpoint in hanging {
            try await waitUntil("all messages are delivered") {
                try await rows(gateway, endpoint).filter { $0.status == .delivered }.count == 10
            }
        }
        running.run.cancel()
    }

    @Test func `a shutdown finishes deliveries in flight and releases the endpoint`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let gate = Gate()
        let receiver = Receiver { _, _, _ in
            await gate.pass()
            return .status(200, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver) { $0.grace = 600 }
        try await fail(phone)
        try await waitUntil("the message is sent") { !receiver.deliveries.isEmpty }
        await running.group.triggerGracefulShutdown()
        gate.open()
        await running.run.value
        #expect(try await rows(gateway, endpoint).first?.status == .delivered)
        #expect(try await gateway.store.webhooks.claim(endpoint) != nil, "no lease is left")
    }

    @Test func `a shutdown with nothing in flight does not wait for the grace period`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let receiver = Receiver()
        let running = dispatcher(gateway, receiver) { $0.grace = 600 }
        try await fail(phone)
        try await waitUntil("the message is delivered") {
            try await rows(gateway, endpoint).first?.status == .delivered
        }
        let ended = Atomic(false)
        let run = Task {
            await running.run.value
            ended.store(true, ordering: .relaxed)
        }
        await running.group.triggerGracefulShutdown()
        try await waitUntil("the courier ends") { ended.load(ordering: .relaxed) }
        await run.value
        #expect(try await gateway.store.webhooks.claim(endpoint) != nil, "no lease is left")
    }

    @Test func `a shutdown cancels a message that exceeds the grace period and repeats it under its id`() async throws {
        let gateway = try await Gateway()
        let phone = try await phone(gateway)
        let endpoint = try await endpoint(gateway, phone.organization)
        let receiver = Receiver { _, _, _ in
            try? await Task.sleep(for: .seconds(600))
            return Task.isCancelled ? .none("cancelled") : .status(200, retryAt: nil)
        }
        let running = dispatcher(gateway, receiver) { $0.grace = 0.05 }
        try await fail(phone)
        try await waitUntil("the message is sent") { !receiver.deliveries.isEmpty }
        await running.group.triggerGracefulShutdown()
        await running.run.value
        let row = try #require(try await rows(gateway, endpoint).first)
        #expect(row.status == .waiting && row.attemptCount == 0, "the shutdown is not a failure of the receiver")
        #expect(try await gateway.store.webhooks.claim(endpoint) != nil, "no lease is left")
    }

    @Test func `announces each change of an upstream's health once`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        try await DispatcherHarness.setUpstream(organization.id, gateway, 4, "/id")
        let endpoint = try await endpoint(gateway, organization)
        let running = dispatcher(gateway, Receiver())
        for isDown in [false, true, true, false, false] {
            running.dispatcher.record(upstream: organization.id, isDown: isDown, reason: isDown ? "unreachable" : nil)
        }
        try await waitUntil("both changes are recorded") { try await rows(gateway, endpoint).count == 2 }
        #expect(Set(try await rows(gateway, endpoint).map(\.event)) == [.upstreamDown, .upstreamUp])
        running.run.cancel()
    }

    @Test func `places go to organizations in turn`() async throws {
        let gateway = try await Gateway()
        let clock = gateway.clock
        var configuration = WebhookDispatcher.Configuration(now: { clock.now })
        configuration.places = 5
        configuration.maxConcurrentPerOrganization = 2
        let dispatcher = WebhookDispatcher(
            store: gateway.store.webhooks,
            post: Receiver().post,
            configuration: configuration,
            logger: Logger(label: "test")
        )
        let (large, small) = (UUID(), UUID())
        let many = (0..<10).map { _ in WebhookKey(organization: large, id: UUID()) }
        let few = [WebhookKey(organization: small, id: UUID())]
        let chosen = dispatcher.loop.places.take(many + few).taken
        #expect(chosen.count == 3 && chosen.filter { $0.organization == large }.count == 2)
        #expect(
            dispatcher.loop.places.take(many + few).taken.isEmpty,
            "an organization that holds its share gets no further place, and a running endpoint no second one"
        )
        let others = (0..<5).map { _ in WebhookKey(organization: UUID(), id: UUID()) }
        #expect(dispatcher.loop.places.take(others).taken.count == 2, "all places are taken")
    }
}
