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
@testable import IngestFeature
@testable import SyncDispatch
@testable import SyncStore

/// Pollers on a test clock, and upstreams with scripted answers.
@Suite struct PollerTests {
    /// An upstream with scripted lists.
    private final class Lists: UpstreamReader {
        typealias Script = @Sendable (UpstreamFetch, _ number: Int) async -> FetchAnswer

        private let asked = Mutex([UpstreamFetch]())
        private let bases = Mutex([String]())
        private let script: Script

        init(_ script: @escaping Script) {
            self.script = script
        }

        /// Always answers with the same list.
        convenience init(_ body: String) {
            self.init { _, _ in .list(body) }
        }

        var requests: [UpstreamFetch] { asked.withLock { $0 } }
        /// The base URL of each request.
        var baseURLs: [String] { bases.withLock { $0 } }

        func fetch(_ request: UpstreamFetch, from upstream: UpstreamSettings) async -> FetchAnswer {
            bases.withLock { $0.append(upstream.baseURL) }
            let number = asked.withLock { asked in
                asked.append(request)
                return asked.count
            }
            return await script(request, number)
        }
    }

    private static let rule = """
        {"entity_type": "contact", "operation": "upsert", "id": "/id", "version": "/version", "document": "/document"}
        """

    private static func item(_ id: Int, version: Int = 1) -> String {
        #"{"id":\#(id),"version":\#(version),"document":{"n":\#(id)}}"#
    }

    private struct Running {
        let poller: Poller
        let group: ServiceGroup
        let run: Task<Void, Never>

        func end() async {
            await group.triggerGracefulShutdown()
            await run.value
        }
    }

    private func poller(
        _ gateway: Gateway,
        _ lists: Lists,
        _ configure: (inout Poller.Configuration) -> Void = { _ in }
    ) -> Running {
        let clock = gateway.clock
        var configuration = Poller.Configuration(now: { clock.now })
        configuration.pollInterval = 0.02
        configure(&configuration)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let poller = Poller(store: gateway.store, upstream: lists, configuration: configuration, logger: logger)
        let group = ServiceGroup(services: [poller], logger: logger)
        return Running(poller: poller, group: group, run: Task { try? await group.run() })
    }

    private func organization(_ gateway: Gateway, hasUpstream: Bool = true) async throws -> Organization {
        let organization = try await gateway.organization()
        if hasUpstream { try await DispatcherHarness.setUpstream(organization.id, gateway, 4, "/id") }
        // the type is visible to the whole organization, because private items would require an owner
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded)
                VALUES ('\(organization.id)', 'contact', 'mapped', 'organization', 0, false)
                """
        )
        connection.close()
        gateway.store.catalog.invalidate(organization.id)
        return organization
    }

    private func source(
        _ gateway: Gateway,
        _ organization: Organization,
        _ name: String = "crm",
        _ members: String = #""interval_seconds": 60"#
    ) async throws -> SourceKey {
        let key = SourceKey(organization: organization.id, name: name)
        var report = MemberReport()
        let text = #"{"path": "/contacts", "mapping": {"rules": [\#(Self.rule)]}, \#(members)}"#
        let root = try JSONTree(parsing: Array(text.utf8)).root
        let settings = try #require(SourceSettings(.poller, root, at: "", &report), "\(report.problems)")
        _ = try await gateway.store.sourceAdministration.put(key, SourceUpdate(settings: settings))
        return key
    }

    private func row(_ gateway: Gateway, _ key: SourceKey) async throws -> SourceRow {
        try #require(try await gateway.store.sourceAdministration.source(key))
    }

    private func put(_ gateway: Gateway, _ organization: Organization, _ status: String) async throws {
        let update = try OrganizationUpdate(body: Array(#"{"status":"\#(status)"}"#.utf8))
        _ = try await gateway.store.administration.put(organization.id, update)
    }

    private func waitFor(_ gateway: Gateway, _ key: SourceKey, _ what: String, _ holds: (SourceRow) -> Bool)
        async throws
    {
        try await waitUntil("\(key.name): \(what)") { holds(try await row(gateway, key)) }
    }

    // MARK: - Normal operation

    @Test func `an API's list is in the feed, and requested again after the interval`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let lists = Lists { _, number in
            .list("[\(Self.item(1, version: number)),\(Self.item(2))]", etag: "\"\(number)\"")
        }
        let running = poller(gateway, lists)
        try await waitFor(gateway, key, "has had success") { $0.lastSuccessAt != nil && $0.lastEventAt != nil }
        #expect(try await entities(gateway, organization) == ["1", "2"])
        let first = try await row(gateway, key)
        #expect(first.lastError == nil && first.failureCount == 0)
        #expect(first.nextRunAt == gateway.clock.now.adding(seconds: 60))
        gateway.clock.advance(seconds: 59)
        try await settled(gateway, running)
        #expect(lists.requests.count == 1)
        gateway.clock.advance(seconds: 1)
        try await waitUntil("the list is requested again") { lists.requests.count == 2 }
        #expect(lists.requests[1].etag == #""1""#)
        await running.end()
    }

    @Test func `writes nothing without a change`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let lists = Lists { request, _ in
            request.isConditional ? .response(FetchedResponse(status: 304)) : .list("[\(Self.item(1))]", etag: "\"a\"")
        }
        let running = poller(gateway, lists)
        try await waitUntil("the list was requested") { try await row(gateway, key).lastSuccessAt != nil }
        let state = try await row(gateway, key).state
        let eventAt = try await row(gateway, key).lastEventAt
        gateway.clock.advance(seconds: 60)
        let moment = gateway.clock.now
        try await waitFor(gateway, key, "was asked again") { $0.lastSuccessAt == moment }
        #expect(try await row(gateway, key).state == state)
        #expect(try await row(gateway, key).lastEventAt == eventAt)
        await running.end()
    }

    @Test func `reports a refused item and applies the others`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let running = poller(
            gateway,
            Lists("[\(Self.item(1)),{\"id\":2,\"version\":\"x\",\"document\":{}},\(Self.item(3))]")
        )
        try await waitFor(gateway, key, "has a warning") { $0.lastError != nil }
        let row = try await row(gateway, key)
        #expect(row.lastError?.contains("/1/version") == true, "\(row.lastError ?? "")")
        #expect(row.failureCount == 0 && row.failingSince == nil && row.lastSuccessAt != nil)
        #expect(try await entities(gateway, organization) == ["1", "3"])
        await running.end()
    }

    @Test func `a long page is applied in several batches, and errors have pointers in the whole page`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let items = (1...23).map { $0 == 22 ? "{}" : Self.item($0) }.joined(separator: ",")
        let running = poller(gateway, Lists("[\(items)]")) { $0.limits.mutations = 5 }
        try await waitFor(gateway, key, "has a warning") { $0.lastError != nil }
        #expect(try await row(gateway, key).lastError?.contains("/21") == true)
        #expect(try await entities(gateway, organization).count == 22)
        await running.end()
    }

    @Test func `reports an item that the database refuses, and applies the others`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF NEW.id = '7' THEN RAISE 'no'; END IF; RETURN NEW; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON entities FOR EACH ROW EXECUTE FUNCTION refuse()
                """
        )
        let key = try await source(gateway, organization)
        let items = (1...9).map { Self.item($0) }.joined(separator: ",")
        let running = poller(gateway, Lists("[\(items)]")) { ($0.attemptsWhileOverloaded, $0.retryPause) = (2, 0.01) }
        try await waitFor(gateway, key, "has a warning") { $0.lastError != nil }
        #expect(try await entities(gateway, organization).count == 8)
        await running.end()
        connection.close()
    }

    @Test func `items that the feed cannot accept now fail the run, and are applied later`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let connection = try await gateway.database.connect()
        try await connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE 'busy' USING ERRCODE = '55P03'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON entities FOR EACH ROW EXECUTE FUNCTION refuse()
                """
        )
        let key = try await source(gateway, organization)
        let running = poller(gateway, Lists("[\(Self.item(1))]")) {
            ($0.attemptsWhileOverloaded, $0.retryPause) = (2, 0.01)
        }
        try await waitFor(gateway, key, "has failed") { $0.failureCount == 1 }
        let row = try await row(gateway, key)
        #expect(row.lastError?.contains("the items of a page could not be committed") == true, "\(row.lastError ?? "")")
        #expect(row.activity == .retrying && row.failingSince != nil)
        try await connection.acceptRows(in: "refuse")
        connection.close()
        gateway.clock.advance(seconds: 120)
        try await waitFor(gateway, key, "works") { $0.failureCount == 0 && $0.lastSuccessAt != nil }
        #expect(try await entities(gateway, organization) == ["1"])
        await running.end()
    }

    // MARK: - Failures

    @Test func `backs off from a failing upstream until it answers`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let isDown = Atomic(true)
        let lists = Lists { _, _ in
            isDown.load(ordering: .sequentiallyConsistent) ? .none("connection refused") : .list("[\(Self.item(1))]")
        }
        let running = poller(gateway, lists)
        for (count, pause) in [(1, 30.0), (2, 60), (3, 120)] {
            try await waitFor(gateway, key, "failure \(count)") { $0.failureCount == Int32(count) }
            let row = try await row(gateway, key)
            #expect(row.lastError == "connection refused" && row.failingSince != nil)
            let next = Double((row.nextRunAt?.microseconds ?? 0) - gateway.clock.now.microseconds) / 1_000_000
            #expect(next >= pause && next <= pause * 1.2)
            gateway.clock.advance(seconds: next + 0.001)
        }
        isDown.store(false, ordering: .sequentiallyConsistent)
        gateway.clock.advance(seconds: 1_000)
        try await waitFor(gateway, key, "answers") {
            $0.failureCount == 0 && $0.lastError == nil && $0.failingSince == nil
        }
        await running.end()
    }

    @Test func `a poller respects Retry-After`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let clock = gateway.clock
        let lists = Lists { _, _ in
            .response(FetchedResponse(status: 429, retryAt: clock.now.adding(seconds: 5_000)))
        }
        let running = poller(gateway, lists)
        try await waitFor(gateway, key, "failed") { $0.failureCount == 1 }
        #expect(try await row(gateway, key).nextRunAt == clock.now.adding(seconds: 5_000))
        #expect(try await row(gateway, key).lastError == "the upstream answered 429")
        // an operator's run takes precedence
        _ = try await gateway.store.sourceAdministration.run(key, from: .continuing)
        try await waitUntil("the list is requested") { lists.requests.count == 2 }
        await running.end()
    }

    @Test func `sources wait without an upstream or while their organization is suspended`()
        async throws
    {
        let gateway = try await Gateway()
        let organization = try await organization(gateway, hasUpstream: false)
        let key = try await source(gateway, organization)
        let lists = Lists("[\(Self.item(1))]")
        let running = poller(gateway, lists)
        try await waitFor(gateway, key, "failed") { $0.lastError == "the organization has no upstream" }
        try await DispatcherHarness.setUpstream(organization.id, gateway, 4, "/id")
        try await put(gateway, organization, "suspended")
        gateway.clock.advance(seconds: 1_000)
        try await settled(gateway, running)
        #expect(lists.requests.isEmpty)
        try await put(gateway, organization, "active")
        try await waitFor(gateway, key, "is polled") { $0.lastSuccessAt != nil }
        await running.end()
    }

    // MARK: - Pages and turns

    @Test func `an endless list takes turns and does not block others`() async throws {
        let gateway = try await Gateway()
        let (endless, other) = (try await organization(gateway), try await organization(gateway))
        let key = try await source(gateway, endless, "endless", #""paging": {"page": {"parameter": "p"}}"#)
        let lists = Lists { request, number in
            request.organization == endless.id ? .list("[\(Self.item(number))]") : .list("[\(Self.item(1))]")
        }
        let running = poller(gateway, lists) {
            $0.places = 1
            $0.maxConcurrentPerOrganization = 1
            $0.pages = 3
        }
        try await waitUntil("the endless list has begun") { lists.requests.count > 3 }
        let good = try await source(gateway, other)
        try await waitFor(gateway, good, "has its turn") { $0.lastSuccessAt != nil }
        let pages = lists.requests.filter { $0.organization == endless.id }
        #expect(pages.map(\.path) == (1...pages.count).map { "/contacts?p=\($0)" }, "a turn skips no page")
        #expect(try await row(gateway, key).failureCount == 0)
        await running.end()
    }

    @Test func `any worker resumes an interrupted pass at its page`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(
            gateway,
            organization,
            "crm",
            #""items":"/d", "paging": {"cursor": {"parameter": "c", "pointer": "/next"}}"#
        )
        let lists = Lists { request, number in
            let page = request.path.split(separator: "=").last.flatMap { Int($0) } ?? 0
            if page == 2, number == 3 { return .response(FetchedResponse(status: 500)) }
            let next = page == 3 ? "null" : "\"\(page + 1)\""
            return .list(#"{"d":[\#(Self.item(page + 1))],"next":\#(next)}"#)
        }
        let first = poller(gateway, lists)
        try await waitFor(gateway, key, "failed") { $0.failureCount == 1 }
        await first.end()
        gateway.clock.advance(seconds: 1_000)
        let replica = try await Gateway(replicaOf: gateway)
        replica.clock.set(gateway.clock.now)
        let second = poller(replica, lists)
        try await waitFor(gateway, key, "is done") {
            $0.failureCount == 0 && $0.nextRunAt == gateway.clock.now.adding(seconds: 30)
        }
        #expect(
            lists.requests.map(\.path) == [
                "/contacts", "/contacts?c=1", "/contacts?c=2", "/contacts?c=2", "/contacts?c=3",
            ]
        )
        #expect(try await entities(gateway, organization) == ["1", "2", "3", "4"])
        await second.end()
    }

    // MARK: - Leases

    @Test func `a lost worker's source passes to another, and the late result changes nothing`()
        async throws
    {
        let gateway = try await Gateway()
        let replica = try await Gateway(replicaOf: gateway)
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let gate = Gate()
        let slow = Lists { _, _ in
            await gate.pass()
            return .list("[\(Self.item(1))]", etag: "\"late\"")
        }
        let fast = Lists { _, _ in .list("[\(Self.item(1)),\(Self.item(2))]", etag: "\"soon\"") }
        // the first sends no renewal, as if it had stopped
        let first = poller(gateway, slow) { $0.renewInterval = 3_600 }
        try await waitUntil("the first poller is running") { slow.requests.count == 1 }
        let second = poller(replica, fast)
        try await settled(replica, second)
        #expect(fast.requests.isEmpty)
        replica.clock.advance(seconds: 61)
        try await waitUntil("the second poller has polled") { try await row(gateway, key).lastSuccessAt != nil }
        let state = try await row(gateway, key).state
        gate.open()
        await first.end()
        #expect(try await row(gateway, key).state == state)
        #expect(try await entities(gateway, organization) == ["1", "2"])
        await second.end()
    }

    @Test func `a worker releases a source that an operator changes or removes`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let gate = Gate()
        let lists = Lists { _, number in
            if number == 1 { await gate.pass() }
            return .list("[\(Self.item(number))]")
        }
        let running = poller(gateway, lists) { $0.renewInterval = 0.02 }
        try await waitUntil("the poller is running") { lists.requests.count == 1 }
        _ = try await source(gateway, organization, "crm", #""interval_seconds": 70"#)
        try await waitUntil("the new settings are in use") { lists.requests.count == 2 }
        try await waitFor(gateway, key, "has had success") { $0.lastSuccessAt != nil }
        #expect(try await row(gateway, key).nextRunAt == gateway.clock.now.adding(seconds: 70))
        #expect(try await entities(gateway, organization) == ["2"], "the old settings' result was not applied")
        #expect(try await gateway.store.sourceAdministration.delete(key))
        await running.end()
    }

    @Test(arguments: [true, false])
    func `an answer of a former upstream changes nothing, and the new upstream is polled immediately`(
        isPage: Bool
    ) async throws {
        let gateway = try await Gateway()
        let replica = try await Gateway(replicaOf: gateway)
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let gate = Gate()
        let lists = Lists { _, number in
            if number == 1 { await gate.pass() }
            if number == 1, !isPage { return .none("connection refused") }
            return .list("[\(Self.item(number))]", etag: "\"\(number)\"")
        }
        let running = poller(gateway, lists)
        try await waitUntil("the poller is running") { lists.requests.count == 1 }
        // another gateway changes the upstream, so this gateway's cache has the former settings
        let update = UpstreamUpdate(baseURL: "http://new.invalid")
        _ = try await replica.store.administration.putUpstream(of: organization.id, update)
        gate.open()
        try await waitFor(gateway, key, "has had success") { $0.lastSuccessAt != nil }
        #expect(lists.baseURLs == ["http://upstream.invalid", "http://new.invalid"])
        #expect(try await entities(gateway, organization) == ["2"])
        let row = try await row(gateway, key)
        #expect(row.failureCount == 0 && row.lastError == nil)
        #expect(row.state.map { String(decoding: $0, as: UTF8.self).contains(#"\"2\""#) } == true)
        await running.end()
    }

    @Test func `a shutdown abandons requests and releases sources`() async throws {
        let gateway = try await Gateway()
        let organization = try await organization(gateway)
        let key = try await source(gateway, organization)
        let gate = Gate()
        let lists = Lists { _, _ in
            await gate.pass()
            return Task.isCancelled ? .none("cancelled") : .list("[]")
        }
        let running = poller(gateway, lists)
        try await waitUntil("the poller is running") { lists.requests.count == 1 }
        await running.group.triggerGracefulShutdown()
        await running.run.value
        let row = try await row(gateway, key)
        #expect(row.failureCount == 0 && row.lastError == nil && row.nextRunAt == gateway.clock.now)
        #expect(try await gateway.store.sources.claim(key, .poller) != nil, "no lease is left")
    }

    // MARK: - Fairness

    @Test func `places go to organizations in turn, longest waiting first`() async throws {
        let gateway = try await Gateway()
        let clock = gateway.clock
        var configuration = Poller.Configuration(now: { clock.now })
        configuration.places = 5
        configuration.maxConcurrentPerOrganization = 2
        let poller = Poller(
            store: gateway.store,
            upstream: Lists("[]"),
            configuration: configuration,
            logger: Logger(label: "test")
        )
        let (large, small) = (UUID(), UUID())
        let many = (0..<10).map { SourceKey(organization: large, name: "s\($0)") }
        let few = [SourceKey(organization: small, name: "s")]
        let chosen = poller.loop.places.take(many + few).taken
        #expect(chosen.filter { $0.organization == large }.map(\.name) == ["s0", "s1"] && chosen.count == 3)
        #expect(
            poller.loop.places.take(many + few).taken.isEmpty,
            "an organization that holds its share gets no further place, and a running source no second one"
        )
        let others = (0..<5).map { SourceKey(organization: UUID(), name: "s\($0)") }
        #expect(poller.loop.places.take(others).taken.count == 2, "all places are taken")
    }

    @Test func `hanging hosts leave places for another organization`() async throws {
        let gateway = try await Gateway()
        let (gate, answered) = (Gate(), Shared<UUID?>(nil))
        let lists = Lists { request, _ in
            if request.organization != answered.value { await gate.pass() }
            return .list("[\(Self.item(1))]")
        }
        let running = poller(gateway, lists) { ($0.places, $0.maxConcurrentPerOrganization) = (2, 1) }
        for _ in 0..<4 { _ = try await source(gateway, try await organization(gateway)) }
        try await waitUntil("four requests hang") { lists.requests.count == 4 }
        try await waitUntil("the requests occupy no places") { running.poller.loop.places.awaiting == 4 }
        let other = try await organization(gateway)
        answered.value = other.id
        let key = try await source(gateway, other)
        try await waitUntil("the source was polled") { try await row(gateway, key).lastSuccessAt != nil }
        #expect(running.poller.loop.places.count >= 4)
        gate.open()
        await running.group.triggerGracefulShutdown()
        await running.run.value
    }

    @Test func `polling and forwarding to the same upstream fail independently`()
        async throws
    {
        let gateway = try await Gateway()
        let harness = try await DispatcherHarness(gateway: gateway)
        let lists = Lists { _, _ in .none("connection refused") }
        let running = poller(gateway, lists)
        var keys: [SourceKey] = []
        for number in 0..<8 { keys.append(try await source(gateway, harness.organization, "s\(number)")) }
        for key in keys { try await waitFor(gateway, key, "failed") { $0.failureCount == 1 } }
        #expect(harness.dispatcher.current.openCircuits == 0)
        let create = harness.create()
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        await running.end()
        await harness.shutDown()
    }

    // MARK: - Polling

    private func settled(_ gateway: Gateway, _ running: Running) async throws {
        // sources that were due would have been polled before this newly added one
        let organization = try await organization(gateway, hasUpstream: false)
        let probe = try await source(gateway, organization, "probe")
        try await waitFor(gateway, probe, "was polled") { $0.failureCount > 0 }
    }

    /// The ids in the feed.
    private func entities(_ gateway: Gateway, _ organization: Organization) async throws -> [String] {
        let connection = try await gateway.database.connect()
        defer { connection.close() }
        let sql = "SELECT id FROM entities WHERE organization_id = $1 ORDER BY length(id), id"
        let rows = try await connection.run(Query(Statement("", sql), Parameters(organization.id)))
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }
}

extension FetchAnswer {
    fileprivate static func list(_ body: String, etag: String? = nil) -> FetchAnswer {
        .response(FetchedResponse(status: 200, etag: etag, body: Array(body.utf8)))
    }
}
