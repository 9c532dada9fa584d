import Foundation
import JSONText
import Logging
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import AdministrationFeature
@testable import SyncStore
@testable import UsersFeature

/// Erases a user with all data.
@Suite struct ErasureTests {
    // MARK: - Nothing remains

    /// The test reads the list of tables and columns from the database, so that it includes tables that are added
    /// later.
    @Test(arguments: [nil, TestKeys.first]) func `a scan of every column finds no data of the user`(
        masterKeys: String?
    ) async throws {
        let gateway = try await Gateway(masterKeys: masterKeys)
        let organization = try await folderOrganization(
            gateway,
            #"{"mutations_per_day_per_user":1000,"requests_per_second":1000}"#
        )
        let stranger = try await gateway.organization()
        let subject = Subject(issuer: ByteExactString("https://id.example"), text: ByteExactString("ada@example.org"))
        let user = try await gateway.store.identities.make(subject, in: organization)
        let one = Phone(gateway, organization, user: user)
        let other = Phone(gateway, organization)
        // the same ids in another organization
        let eve = Phone(gateway, stranger, user: user, device: one.device)
        let (word, client) = ("Geheimnis", UUID())
        let folder = one.numbered("create", 77_123_456, "folder", payload: #"{"title":"\#(word)"}"#)
        let note = one.create("note", local: client, payload: #"{"title":"\#(word)","digits":8123.4567}"#)
        var refused = one.create("note", payload: #"{"title":"\#(word)"}"#)
        refused.extra["dependency_ids"] = #"["\#(UUID().lowercased)"]"#
        try await one.push([folder, note, refused])
        _ = try await one.pull()
        let theirs = try await other.push([other.create("note", payload: #"{"title":"theirs"}"#)]).results[0]
        let server = try #require(theirs.serverID)
        let shared = one.entry("update", "note", server: #""\#(server)""#, payload: #"{"title":"\#(word)"}"#)
        try await one.push([shared])
        try await eve.push([eve.create("note", payload: #"{"title":"\#(word)"}"#)])
        try await one.execute(
            """
            INSERT INTO retention_places (organization_id, shrunk_until, shrunk_user, shrunk_id, mapping_user, mapping_client)
            VALUES ('\(organization.id)', now(), '\(user)', '\(note.id)', '\(user)', '\(client)')
            """
        )
        let before = try await gateway.rows(
            "SELECT t::text FROM mutations t WHERE user_id = '\(other.user)' OR organization_id = '\(stranger.id)' ORDER BY 1"
        )

        try await one.erase()
        let names = [
            user, one.device, client, note.id, note.key, folder.id, folder.key, refused.id, refused.key, shared.id,
            shared.key,
        ]
        for text in names.flatMap({ [$0.lowercased, $0.lowercased.replacing("-", with: "")] }) {
            #expect(try await gateway.mentions(of: text, in: organization.id) == [:], "\(text)")
        }
        for text in ["ada@example", "id.example", "77123456", "8123.4567"] {
            #expect(try await gateway.mentions(of: text, in: organization.id) == [:], "\(text)")
        }
        // another user's document keeps the text that the user wrote into it; the user's own documents are gone
        let left = (masterKeys ?? TestKeys.ofEnvironment) == nil ? ["entities": 1] : [:]
        #expect(try await gateway.mentions(of: word, in: organization.id) == left)
        let documents = try await other.pull()
        #expect(documents.filter { $0["deleted"]?.bool == false }.compactMap { $0["id"]?.string } == [server])
        #expect(documents.allSatisfy { $0["updated_by"]?.string == UUID.least.lowercased })

        // all data of others is unchanged
        #expect(
            try await gateway.rows(
                "SELECT t::text FROM mutations t WHERE user_id = '\(other.user)' OR organization_id = '\(stranger.id)' ORDER BY 1"
            ) == before
        )
        #expect(try await eve.pull().count == 1)
        #expect(try await eve.push([eve.create("note")]).results[0].status == "succeeded")
        let update = other.entry("update", "note", server: #""\#(server)""#, payload: #"{"title":"mine again"}"#)
        #expect(try await other.push([update]).results[0].status == "succeeded")
        #expect(try await gateway.mentions(of: word, in: organization.id) == [:])
        let names2 = try await gateway.rows("SELECT count(*)::text FROM erased_names")
        #expect(names2 == ["5"], "names of three mutations, a refused entry and a device")
    }

    @Test func `each type determines how an erasure treats its documents`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        for (name, visibility, choice) in [
            ("gone", Visibility.organization, OnErase.delete), ("kept", .organization, .blankOwner),
            ("diary", .user, .blankOwner),
        ] {
            var update = EntityTypeUpdate()
            (update.visibility, update.onErase) = (visibility, choice)
            let written = try await gateway.store.administration.putEntityType(name, in: organization.id, update)
            #expect(written?.value.onErase == choice)
        }
        let known = try await gateway.known(organization.id)
        let (one, other) = (Phone(gateway, known), Phone(gateway, known))
        try await one.push([one.create("gone"), one.create("kept"), one.create("diary")])
        let deleted = try #require(try await one.push([one.create("kept")]).results[0].serverID)
        try await one.push([one.entry("delete", "kept", server: #""\#(deleted)""#)])
        let cursor = try await other.changes(since: nil, limit: 100).next
        try await one.erase()
        // a reader with an earlier cursor receives all changes
        let changes = try await other.changes(since: cursor, limit: 100)["changes"]?.elements.map { Array($0) } ?? []
        let states = changes.map {
            "\($0["entity_type"]?.string ?? "-") \($0["version"]?.int64 ?? 0) \($0["deleted"]?.bool ?? false)"
        }
        #expect(states.sorted() == ["gone 2 true", "kept 1 false", "kept 2 true"])
        #expect(changes.allSatisfy { $0["updated_by"]?.string == UUID.least.lowercased })
        let rows = try await gateway.rows(
            """
            SELECT entity_type || ' ' || is_deleted || ' ' || (document IS NULL) || ' ' || owner_id
            FROM entities ORDER BY 1
            """
        )
        let nobody = UUID.least.lowercased
        #expect(
            rows == [
                "diary true true \(nobody)", "gone true true \(nobody)", "kept false false \(nobody)",
                "kept true true \(nobody)",
            ]
        )
    }

    // MARK: - Requests of erased users

    @Test func `requests as the erased user are refused and the user's mutations do not run`() async throws {
        let one = try await Phone.forwarding()
        let (gateway, organization) = (one.gateway, one.organization)
        let (known, late) = (one.forward("create", local: UUID()), one.forward("create", local: UUID()))
        try await one.push([known])
        let elsewhere = try await Gateway(replicaOf: gateway)
        _ = try await elsewhere.known(organization.id)
        try await one.erase()
        // a gateway that has not been notified, and whose clock does not advance
        for replica in [gateway, elsewhere] {
            for entries in [[known], [late]] {
                let phone = one.signedIn(as: one.user, through: replica)
                let problem = await #expect(throws: Problem.self) { try await phone.push(entries) }
                #expect(problem?.code == .userErased)
            }
            for device in [one.device, UUID()] {
                _ = try await replica.known(organization.id)
                let problem = await #expect(throws: Problem.self) {
                    try await replica.store.devices.register(device, organization: organization, user: one.user)
                }
                #expect(problem?.code == .userErased)
            }
        }
        for table in ["users", "devices", "lanes", "mutations", "rejections"] {
            #expect(try await one.rowCount(table) == 0, "\(table)")
        }
        let store = gateway.store
        #expect(store.catalog.cached(organization.id, one.user) == nil)
        let again = await #expect(throws: Problem.self) {
            try await store.administration.putUser(one.user, in: organization.id)
        }
        #expect(again?.code == .userErased)
        // the user is rejected even after all retention periods
        gateway.clock.advance(seconds: 40 * 86_400)
        let problem = await #expect(throws: Problem.self) {
            try await store.catalog.owner(of: one.user, in: organization.id)
        }
        #expect(problem?.code == .userErased)
        #expect(try await store.catalog.owner(of: UUID(), in: organization.id) != one.user)
    }

    @Test func `an erased subject is not mapped to a new id`() async throws {
        let gateway = try await Gateway()
        let (organization, elsewhere) = (try await gateway.organization(), try await gateway.organization())
        let subject = Subject(issuer: ByteExactString("https://id.example"), text: ByteExactString("ada"))
        let user = try await gateway.store.identities.make(subject, in: organization)
        let there = try await gateway.store.identities.make(subject, in: elsewhere)
        try await Phone(gateway, organization, user: user).erase()
        let second = try await Gateway(replicaOf: gateway)
        for replica in [gateway, second] {
            let problem = await #expect(throws: Problem.self) {
                try await replica.store.identities.user(subject, in: organization)
            }
            #expect(problem?.code == .userErased)
            let letIn = await #expect(throws: Problem.self) {
                _ = try await replica.store.administration.putUser(subject, in: organization.id)
            }
            #expect(letIn?.code == .userErased)
        }
        #expect(try await second.store.identities.user(subject, in: elsewhere) == there)
        let stranger = Subject(issuer: ByteExactString("https://id.example"), text: ByteExactString("ada2"))
        #expect(try await second.store.identities.make(stranger, in: organization) != user)
    }

    @Test func `checks only occasionally whether other users are erased`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        for phone in [one, other] { try await phone.push([phone.create()]) }
        let catalog = gateway.store.catalog
        _ = try await catalog.owner(of: other.user, in: organization.id)
        #expect(catalog.cached(organization.id, other.user) != nil, "no user is erased, so no look-up is needed")
        try await one.erase()
        _ = try await catalog.owner(of: other.user, in: organization.id)
        #expect(catalog.cached(organization.id, other.user) != nil)
        gateway.clock.advance(seconds: 200)
        _ = try await catalog.organization(organization.id)
        #expect(catalog.cached(organization.id, other.user) != nil)
        gateway.clock.advance(seconds: 200)
        _ = try await catalog.organization(organization.id)
        #expect(catalog.cached(organization.id, other.user) == nil)
        #expect(catalog.cached(organization.id, one.user) == nil)
    }

    // MARK: - Other users

    @Test func `erases no other user`() async throws {
        let gateway = try await Gateway()
        let (organization, stranger) = (try await gateway.organization(), try await gateway.organization())
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        let eve = Phone(gateway, stranger)
        for phone in [one, other, eve] { try await phone.push([phone.create()]) }
        let before = try await gateway.everything()
        let erasing = gateway.store.erasing
        #expect(try await erasing.erase(UUID(), in: organization.id) == nil)
        #expect(try await erasing.erase(eve.user, in: organization.id) == nil)
        #expect(try await erasing.erase(one.user, in: UUID()) == nil)
        try await one.execute("INSERT INTO gateways (id, seen_at) VALUES (gen_random_uuid(), clock_timestamp())")
        let old = await #expect(throws: Problem.self) { try await erasing.erase(one.user, in: organization.id) }
        #expect(old?.code == .validationFailed && old?.errors.map(\.rule) == ["erasure_old_gateway"])
        try await one.execute("DELETE FROM gateways WHERE newest_migration IS NULL")
        _ = try await gateway.store.joining.join(one.user, into: other.user, in: organization.id)
        for user in [one.user, other.user] {
            let joining = await #expect(throws: Problem.self) { try await erasing.erase(user, in: organization.id) }
            #expect(joining?.code == .overloaded)
        }
        gateway.clock.advance(seconds: UserJoining.closedSeconds + 1)
        #expect(try await gateway.everything(but: ["user_joins"]) == before.filter { $0.key != "user_joins" })
    }

    @Test func `an erasure includes the users joined into the user`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let subject = Subject(issuer: ByteExactString("https://id.example"), text: ByteExactString("ada@example.org"))
        let user = try await gateway.store.identities.make(subject, in: organization)
        let (one, other) = (Phone(gateway, organization, user: user), Phone(gateway, organization))
        for phone in [one, other] { try await phone.push([phone.create()]) }
        try await one.join(into: other)
        let erasing = gateway.store.erasing
        let part = await #expect(throws: Problem.self) { try await erasing.erase(one.user, in: organization.id) }
        #expect(part?.code == .notFound && part?.detail.contains(other.user.lowercased) == true)
        #expect(try await erasing.erase(other.user, in: organization.id)?.state == .closing)
        for user in [one.user, other.user] {
            let problem = await #expect(throws: Problem.self) {
                try await gateway.store.catalog.owner(of: user, in: organization.id)
            }
            #expect(problem?.code == .userErased)
        }
        try await other.erase()
        for user in [one.user, other.user] {
            #expect(try await gateway.mentions(of: user.lowercased, in: organization.id) == [:])
            let problem = await #expect(throws: Problem.self) {
                try await gateway.store.catalog.owner(of: user, in: organization.id)
            }
            #expect(problem?.code == .userErased)
        }
        #expect(try await gateway.mentions(of: "ada@example", in: organization.id) == [:])
        let third = Phone(gateway, organization)
        try await third.push([third.create()])
        let into = await #expect(throws: Problem.self) {
            try await gateway.store.joining.join(third.user, into: other.user, in: organization.id)
        }
        #expect(into?.errors.map(\.rule) == ["join_unknown_user"])
    }

    @Test func `a user named only by documents of other systems can be exported and erased`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        _ = try await gateway.store.administration.putEntityType(
            "task",
            in: organization.id,
            EntityTypeUpdate(body: Array(#"{"visibility":"user"}"#.utf8))
        )
        let (user, nobody) = (UUID(), UUID())
        let source = EventSource(gateway, organization)
        let owned = ["owner": #""\#(user.lowercased)""#]
        #expect(try await source.results([EventSource.event("a", "1", version: 1, extra: owned)]) == ["applied"])
        let stranger = try await gateway.organization()
        let (erasing, exporting) = (gateway.store.erasing, gateway.store.exports)
        for (user, organization) in [(nobody, organization), (user, stranger)] {
            #expect(try await erasing.erase(user, in: organization.id) == nil)
            #expect(try await !exporting.isKnown(LaneKey(organization: organization.id, user: user)))
        }
        #expect(try await exporting.isKnown(LaneKey(organization: organization.id, user: user)))
        try await Phone(gateway, organization, user: user).erase()
        #expect(try await gateway.mentions(of: user.lowercased, in: organization.id) == [:])
        #expect(try await gateway.rows("SELECT document FROM entities WHERE document IS NOT NULL") == [])
    }

    @Test func `entities without an owner cannot be erased, exported or joined`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let source = EventSource(gateway, organization)
        #expect(try await source.results([EventSource.event("a", "1", version: 1)]) == ["applied"])
        let phone = Phone(gateway, organization)
        try await phone.push([phone.create("note")])
        let changes = try await phone.pull().count
        for id in [Writer.erased, Writer.elsewhere.user] {
            #expect(try await gateway.store.erasing.erase(id, in: organization.id) == nil)
            #expect(try await !gateway.store.exports.isKnown(LaneKey(organization: organization.id, user: id)))
            #expect(try await gateway.store.joining.join(id, into: phone.user, in: organization.id) == nil)
            let into = await #expect(throws: Problem.self) {
                try await gateway.store.joining.join(phone.user, into: id, in: organization.id)
            }
            #expect(into?.errors.map(\.rule) == ["join_unknown_user"])
            let put = await #expect(throws: Problem.self) {
                try await gateway.store.administration.putUser(id, in: organization.id)
            }
            #expect(put?.code == .invalidRequest)
        }
        #expect(try await phone.pull().count == changes)
    }

    @Test func `a user named only by a parked event can be erased`() async throws {
        let gateway = try await Gateway()
        let phone = Phone(gateway, try await gateway.organization())
        let lane = LaneKey(organization: phone.organization.id, user: phone.user)
        #expect(try await !gateway.store.exports.isKnown(lane))
        try await phone.execute(
            """
            INSERT INTO parked_events (organization_id, source, event_id, entity_type, id, id_is_integer, operation,
                document, owner_id, received_at, look_at)
            VALUES ('\(lane.organization)', 'crm', 'a', 'task', 'x', false, 'upsert', '{"a":1}', '\(lane.user)', now(), now())
            """
        )
        #expect(try await gateway.store.exports.isKnown(lane))
        try await phone.erase()
        #expect(try await gateway.mentions(of: phone.user.lowercased, in: lane.organization) == [:])
    }

    @Test func `an erasure waits for the outcome of a mutation in flight`() async throws {
        let one = try await Phone.forwarding()
        try await one.push([one.forward("create", local: UUID())])
        let (store, organization) = (one.gateway.store, one.organization.id)
        let lane = LaneKey(organization: organization, user: one.user)
        let worker = UUID()
        _ = try await store.lanes.step(.claim, of: lane, worker: worker)
        #expect(try await one.lane()?.isAtRest == false)
        #expect(try await store.erasing.erase(one.user, in: organization)?.state == .closing)
        one.gateway.clock.advance(seconds: 9)
        #expect(try await store.erasing.erase(one.user, in: organization)?.state == .closing)
        #expect(try await one.rowCount("mutations") == 1)
        try await one.execute("UPDATE lanes SET lease_owner = NULL, in_flight_id = NULL WHERE \(one.owner)")
        #expect(try await store.erasing.erase(one.user, in: organization)?.state == .done)
        #expect(try await one.rowCount("mutations") == 0)
    }

    // MARK: - Interruptions

    @Test func `any gateway resumes an interrupted erasure`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let one = Phone(gateway, organization)
        for _ in 0..<3 { try await one.push((0..<30).map { _ in one.create() }) }
        let erasing = gateway.store.erasing
        #expect(try await erasing.erase(one.user, in: organization.id)?.state == .closing)
        gateway.clock.advance(seconds: 9)
        // each of these statements waits for a lock when it is interrupted
        for lock in [
            "SELECT FROM lanes WHERE \(one.owner) FOR UPDATE",
            "SELECT FROM mutations WHERE \(one.owner) ORDER BY position DESC LIMIT 1 FOR UPDATE",
            "SELECT FROM users WHERE \(one.owner) FOR UPDATE",
            "SELECT FROM entities WHERE organization_id = '\(organization.id)' ORDER BY feed_position DESC LIMIT 1 FOR UPDATE",
            "SELECT FROM feeds WHERE organization_id = '\(organization.id)' FOR UPDATE",
            "SELECT FROM retention_places WHERE organization_id = '\(organization.id)' FOR UPDATE",
        ] {
            if lock.contains("retention_places") {
                try await one.execute("INSERT INTO retention_places VALUES ('\(organization.id)')")
            }
            let blocker = try await gateway.database.connect()
            try await blocker.execute(script: "BEGIN; \(lock)")
            async let cut = erasing.erase(one.user, in: organization.id)
            try await gateway.waitForLocks(1)
            try await gateway.killWaiters()
            do {
                _ = try await cut
                Issue.record("the erasure was not interrupted: \(lock)")
            } catch {
                #expect((error as? Problem)?.code == .storeUnavailable)
            }
            try await blocker.execute(script: "ROLLBACK")
            await blocker.closeAndWait()
        }
        let restarted = try await Gateway(replicaOf: gateway)
        restarted.clock.set(gateway.clock.now)
        #expect(try await restarted.store.erasing.continueAny() == false, "another gateway may be running the erasure")
        restarted.clock.advance(seconds: UserErasing.claimSeconds + 1)
        #expect(try await restarted.store.erasing.backlog().count == 1)
        #expect(try await restarted.store.erasing.continueAny())
        #expect(try await restarted.store.erasing.backlog().count == 0)
        #expect(try await gateway.mentions(of: one.user.lowercased, in: organization.id) == [:])
        #expect(try await gateway.rows("SELECT DISTINCT version || ' ' || is_deleted FROM entities") == ["2 true"])
        #expect(try await gateway.rows("SELECT count(*)::text FROM erased_names") == ["91"])
        #expect(try await restarted.store.erasing.continueAny() == false)
    }

    // MARK: - The upstream

    /// Returns the configured answers and records the requests.
    private final class FakeUpstream: Upstream {
        private let state = Mutex<(answers: [UpstreamAnswer], requests: [UpstreamRequest])>(([], []))

        init(_ answers: [UpstreamAnswer]) { state.withLock { $0.answers = answers } }

        var requests: [UpstreamRequest] { state.withLock { $0.requests } }

        func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer {
            state.withLock { state in
                state.requests.append(request)
                return state.answers.isEmpty ? .response(UpstreamResponse(status: 204)) : state.answers.removeFirst()
            }
        }
    }

    @Test func `the upstream is notified until it confirms`() async throws {
        let one = try await Phone.forwarding()
        let (gateway, organization) = (one.gateway, one.organization.id)
        var update = UpstreamUpdate()
        update.eraseEndpoint = .set("/people/{user}?from=sluice")
        let written = try await gateway.store.administration.putUpstream(of: organization, update)
        #expect(written?.value.settings.eraseEndpoint == "/people/{user}?from=sluice")
        try await one.push([one.forward("create", local: UUID())])
        let upstream = FakeUpstream([.response(UpstreamResponse(status: 500)), .unknown("it timed out")])
        var erasing = gateway.store.erasing
        #expect(try await erasing.erase(one.user, in: organization)?.state == .closing)
        gateway.clock.advance(seconds: 9)
        let untold = try await erasing.erase(one.user, in: organization)
        #expect(
            untold?.state == .telling && untold?.attempts == 0,
            "a call without an upstream leaves the notification to gateways"
        )
        erasing.upstream = upstream
        for (attempt, reason) in ["the upstream answered 500", "it timed out"].enumerated() {
            gateway.clock.advance(seconds: 200)
            #expect(try await erasing.continueAny())
            #expect(try await erasing.continueAny() == false, "the next attempt follows after a pause")
            let rows = try await gateway.rows("SELECT state || ' ' || attempts || ' ' || last_error FROM user_erasures")
            #expect(rows == ["telling \(attempt + 1) \(reason)"])
        }
        // nothing is sent while the organization is suspended
        try await one.execute("UPDATE organizations SET status = 'suspended' WHERE id = '\(organization)'")
        gateway.clock.advance(seconds: 7_200)
        #expect(try await erasing.continueAny())
        #expect(upstream.requests.count == 2)
        try await one.execute("UPDATE organizations SET status = 'active' WHERE id = '\(organization)'")
        gateway.clock.advance(seconds: 61)
        #expect(try await erasing.continueAny())
        #expect(upstream.requests.count == 3)
        let done = try await erasing.erase(one.user, in: organization)
        #expect(done?.state == .done && done?.lastError == nil)
        let asked = upstream.requests
        #expect(asked.allSatisfy { $0.method == "DELETE" && $0.path == "/people/\(one.user.lowercased)?from=sluice" })
        #expect(Set(asked.map(\.idempotencyKey)).count == 1 && asked.allSatisfy { $0.user == one.user })
        #expect(try await gateway.mentions(of: one.user.lowercased, in: organization) == [:])
    }

    /// Answers the requests of one organization only after the test releases the answers.
    private final class HangingUpstream: Upstream {
        private let hanging: UUID
        private let release: AsyncStream<Void>
        private let asked = Mutex<[UUID]>([])

        init(hanging: UUID, until release: AsyncStream<Void>) {
            (self.hanging, self.release) = (hanging, release)
        }

        var organizations: [UUID] { asked.withLock { $0 } }

        func send(_ request: UpstreamRequest, to upstream: UpstreamSettings) async -> UpstreamAnswer {
            asked.withLock { $0.append(request.organization) }
            if request.organization == hanging { for await _ in release {} }
            return .response(UpstreamResponse(status: 204))
        }
    }

    @Test func `an upstream that hangs delays no erasure of another organization`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        let other = Phone(gateway, try await gateway.organization())
        for phone in [one, other] {
            var update = UpstreamUpdate()
            update.baseURL = "http://upstream.invalid"
            update.eraseEndpoint = .set("/people/{user}")
            _ = try await gateway.store.administration.putUpstream(of: phone.organization.id, update)
        }
        let phones = [one, Phone(gateway, one.organization), Phone(gateway, one.organization), other]
        for phone in phones { try await phone.push([phone.create()]) }
        var erasing = gateway.store.erasing
        for phone in phones {
            gateway.clock.advance(seconds: 1)
            #expect(try await erasing.erase(phone.user, in: phone.organization.id)?.state == .closing)
        }
        gateway.clock.advance(seconds: UserErasing.claimSeconds + 10)
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        let upstream = HangingUpstream(hanging: one.organization.id, until: stream)
        erasing.upstream = upstream
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let service = ErasureService(erasing: erasing, pollInterval: 0.05, logger: logger)
        let find = Task { await service.find() }
        try await waitUntil("the other organization's erasure is done, and all rows are gone") {
            let states = try await gateway.rows(
                "SELECT state FROM user_erasures ORDER BY organization_id = '\(other.organization.id)', started_at"
            )
            return states == ["telling", "telling", "telling", "done"]
        }
        #expect(upstream.organizations.count { $0 == one.organization.id } == 1, "one request at a time")
        continuation.finish()
        await find.value
    }

    /// The erasure deletes webhook messages that name the user, and parked events that name the user as a document's
    /// owner. Only the message that announces the erasure remains.
    @Test func `endpoints are notified of an erasure, and no other waiting message names the user`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        for phone in [one, other] { try await phone.push([phone.create()]) }
        let endpoint = UUID()
        try await one.execute(
            """
            INSERT INTO webhook_endpoints (organization_id, id, url, description, events, status, secret, created_at,
                updated_at)
            VALUES ('\(organization.id)', '\(endpoint)', 'https://hooks.example', '', '{user.erased}', 'enabled',
                'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', now(), now());
            INSERT INTO webhook_deliveries (organization_id, endpoint_id, id, event, data, occurred_at, status,
                tried_since, next_attempt_at)
            SELECT '\(organization.id)', '\(endpoint)', gen_random_uuid(), 'mutation.failed',
                json_build_object(CASE n % 2 WHEN 0 THEN 'user_id' ELSE 'updated_by' END, u.id), now(), 'waiting', now(),
                now()
            FROM unnest(ARRAY['\(one.user.lowercased)', '\(other.user.lowercased)']) AS u (id), generate_series(1, 3000) n;
            INSERT INTO parked_events (organization_id, source, event_id, entity_type, id, id_is_integer, operation,
                document, owner_id, received_at, look_at)
            SELECT '\(organization.id)', 'crm', u.id, 'task', 'x', false, 'upsert', '{"a":1}', u.id::uuid, now(), now()
            FROM unnest(ARRAY['\(one.user.lowercased)', '\(other.user.lowercased)']) AS u (id)
            """
        )
        try await one.erase()
        try await one.erase()
        let reported = try await gateway.rows(
            "SELECT event || ' ' || coalesce(data ->> 'user_id', data ->> 'updated_by') FROM webhook_deliveries"
        )
        #expect(
            Dictionary(grouping: reported) { $0 }.mapValues(\.count) == [
                "mutation.failed \(other.user.lowercased)": 3_000, "user.erased \(one.user.lowercased)": 1,
            ]
        )
        #expect(try await gateway.rows("SELECT event_id FROM parked_events") == [other.user.lowercased])
        #expect(
            try await gateway.mentions(of: one.user.lowercased, in: organization.id).keys.allSatisfy {
                $0.hasPrefix("webhook_deliveries")
            }
        )
    }
}

extension Phone {
    /// Erases the phone's user, and waits for the end of the erasure as an operator would.
    func erase() async throws {
        for _ in 0..<2 {
            let erasure = try await gateway.store.erasing.erase(user, in: organization.id)
            if erasure?.state == .done { return }
            gateway.clock.advance(seconds: 9)
        }
        Issue.record("the erasure of the user did not end")
    }
}

extension Gateway {
    /// Returns the tables with rows of an organization that contain a text, as text or as bytes, with the number of
    /// such rows.
    func mentions(of text: String, in organization: UUID) async throws -> [String: Int] {
        var found: [String: Int] = [:]
        for (table, rows) in try await everything() {
            let count = rows.count {
                $0.contains(organization.lowercased) && $0.lowercased().contains(text.lowercased())
            }
            if count > 0 { found[table] = count }
        }
        return found
    }
}
