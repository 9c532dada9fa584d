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
@testable import UsersFeature

/// Two users who are the same person.
@Suite struct JoinTests {
    /// Two phones of two users of an organization whose types are forwarded.
    private static func phones(_ settings: String = "{}", visibility: String = "user") async throws -> (Phone, Phone) {
        let one = try await Phone.forwarding(settings, visibility: visibility)
        return (one, Phone(one.gateway, one.organization))
    }

    // MARK: - One lane

    @Test func `a join merges the lanes of both users in a defined order`() async throws {
        let (one, other) = try await Self.phones()
        let task = UUID()
        let first = [one.forward("create", local: task), one.forward("create", "note", local: UUID())]
        let follower = one.forward("update", local: task, payload: #"{"title":"y"}"#)
        let mine = [other.forward("create", local: UUID()), other.forward("create", local: UUID())]
        try await one.push(first)
        try await other.push([mine[0]])
        try await one.push([follower])
        try await other.push([mine[1]])

        try await one.join(into: other)
        let order = try await one.gateway.rows(
            "SELECT id::text FROM mutations WHERE \(other.owner) ORDER BY position"
        )
        #expect(order == (mine + first + [follower]).map(\.id.lowercased))
        #expect(try await other.disorder() == [])
        #expect(
            try await other.statuses(mine + first + [follower]) == [
                "pending", "pending", "pending", "pending", "blocked",
            ]
        )
        for table in Self.tables { #expect(try await one.rowCount(table) == 0, "\(table)") }
        let lane = try #require(try await other.lane())
        #expect(lane.nextPosition == 6 && lane.queue.count == 4 && lane.openCount == 5)
        #expect(lane.isReady(at: one.gateway.clock.now))

        // a repeated call returns the same result
        let again = try await one.gateway.store.joining.join(one.user, into: other.user, in: one.organization.id)
        #expect(again?.state == .done)
    }

    private static let tables = [
        "users", "devices", "lanes", "mutations", "rejections", "id_mappings", "local_ids", "local_id_pages",
        "mutation_quotas",
    ]

    @Test func `repeats from either device receive their earlier results`() async throws {
        let (one, other) = try await Self.phones()
        let client = UUID()
        let known = one.forward("create", local: client)
        var refused = one.forward("create", local: UUID())
        refused.extra["dependency_ids"] = #"["\#(UUID().lowercased)"]"#
        let first = try await one.push([known, refused]).results
        #expect(first.map(\.status) == ["pending", "rejected"])
        try await other.push([other.forward("create", local: UUID())])
        try await one.join(into: other)

        let phone = one.signedIn(as: other.user)
        let second = try await phone.push([known, refused]).results
        #expect(second.map(\.isReplayed) == [true, true])
        #expect(second.map(\.outcome) == first.map(\.outcome))
        // another device of the same person also has the key and the ids
        let third = try await other.push([known], after: nil).results
        #expect(third[0].isReplayed == true)
        let update = other.forward("update", local: client, payload: #"{"title":"z"}"#)
        #expect(try await other.push([update]).results[0].blockedBy == [known.id])
        // a number at or below the device's watermark stays used
        var used = phone.forward("create", local: UUID())
        used.number = 1
        #expect(try await phone.push([used]).results[0].code == "sequence_already_used")
        #expect(try await phone.push([phone.forward("create", local: UUID())]).results[0].status == "pending")
        #expect(try await phone.disorder() == [])
    }

    @Test func `stuck mutations stay stuck after a join`() async throws {
        let (one, other) = try await Self.phones()
        let task = UUID()
        let create = one.forward("create", local: task)
        let update = one.forward("update", local: task, payload: #"{"title":"y"}"#)
        let conflict = one.forward("create", "note", local: UUID())
        try await one.push([create, update, conflict])
        try await one.leave(create.id, "failed")
        try await one.conflict(conflict.id, current: #"{"id":"7","version":1,"document":{}}"#)
        try await one.execute("UPDATE lanes SET halted_by = '\(conflict.id)', ready_at = NULL WHERE \(one.owner)")
        let mine = other.forward("create", local: UUID())
        try await other.push([mine])

        try await one.join(into: other)
        let phone = one.signedIn(as: other.user)
        #expect(
            try await phone.statuses([create, update, conflict, mine]) == ["failed", "blocked", "conflict", "pending"]
        )
        let lane = try #require(try await other.lane())
        #expect(lane.haltedBy == conflict.id && lane.readyAt == nil)
        #expect(try await phone.retry(create.id)?.status == "pending")
        _ = try await phone.discard(conflict.id)
        #expect(try await phone.read(conflict.id).status == "discarded")
        #expect(try await phone.disorder() == [])
        #expect(try #require(try await other.lane()).haltedBy == nil)
    }

    @Test func `ids keep their meaning after a join`() async throws {
        let gateway = try await Gateway()
        let organization = try await folderOrganization(gateway)
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        let folder = one.numbered("create", 1, "folder", payload: #"{"title":"a"}"#)
        let server = try #require(try await one.push([folder]).results[0].serverID)
        let note = UUID()
        let created = try await one.push([one.create("note", local: note)]).results[0]
        try await other.push([other.numbered("create", 1, "folder", payload: #"{"title":"b"}"#)])

        try await one.join(into: other)
        let phone = one.signedIn(as: other.user)
        let task = phone.numbered("create", 2, "task", payload: #"{"folderId":1}"#)
        let made = try await phone.push([task]).results[0]
        #expect(made.status == "succeeded")
        let document = try await phone.pull(types: ["task"]).first
        #expect(document?.value(at: "/document/folderId")?.text == #""\#(server)""#)
        let update = phone.entry("update", "note", local: note, payload: #"{"title":"c"}"#)
        #expect(try await phone.push([update]).results[0].serverID == created.serverID)
        // the device's own run of writes continues, so its base version causes no conflict
        var stale = phone.entry("replace", "note", local: note, payload: #"{"title":"d"}"#)
        stale.extra["base_version"] = "1"
        #expect(try await phone.push([stale]).results[0].status == "succeeded")
    }

    @Test func `private entities are visible on both phones`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let body = #"{"id_space":"mapped","visibility":"user","upstream":false}"#
        _ = try await gateway.store.administration.putEntityType(
            "diary",
            in: organization.id,
            EntityTypeUpdate(body: Array(body.utf8))
        )
        let (one, other, third) = (
            Phone(gateway, organization), Phone(gateway, organization), Phone(gateway, organization)
        )
        let mine = try #require(try await one.push([one.create("diary")]).results[0].serverID)
        let theirs = try #require(try await other.push([other.create("diary")]).results[0].serverID)
        let gone = try #require(try await one.push([one.create("diary")]).results[0].serverID)
        try await one.push([one.entry("delete", "diary", server: #""\#(gone)""#)])
        let strangers = try #require(try await third.push([third.create("diary")]).results[0].serverID)
        let shared = try #require(try await one.push([one.create("task")]).results[0].serverID)
        let (before, otherBefore) = (
            try await one.changes(since: nil, limit: 100).next, try await other.changes(since: nil, limit: 100).next
        )

        try await one.join(into: other)
        let phone = one.signedIn(as: other.user)
        #expect(try await Set(phone.pull(since: before).compactMap { $0["id"]?.string }) == [mine, theirs])
        #expect(try await Set(other.pull(since: otherBefore).compactMap { $0["id"]?.string }) == [mine, theirs])
        #expect(try await Set(third.pull().compactMap { $0["id"]?.string }) == [strangers, shared])
        let owners = try await gateway.rows(
            "SELECT DISTINCT owner_id || ' ' || updated_by FROM entities WHERE id IN ('\(mine)', '\(gone)', '\(shared)')"
        )
        #expect(owners == ["\(other.user.lowercased) \(other.user.lowercased)"])
        let update = other.entry("update", "diary", server: #""\#(mine)""#, payload: #"{"title":"mine, too"}"#)
        #expect(try await other.push([update]).results[0].status == "succeeded")
    }

    @Test func `sealed values are readable after a join`() async throws {
        let gateway = try await Gateway(masterKeys: TestKeys.first)
        let organization = try await gateway.organization()
        let (one, other) = (Phone(gateway, organization), Phone(gateway, organization))
        let create = one.create(payload: #"{"title":"geheimnis"}"#)
        var refused = one.create()
        refused.extra["dependency_ids"] = #"["\#(UUID().lowercased)"]"#
        let first = try await one.push([create, refused]).results
        try await other.push([other.create()])
        let before = try await one.read(create.id).outcome
        try await one.join(into: other)
        let phone = one.signedIn(as: other.user)
        // only the owner has changed
        let after = try await phone.read(create.id).outcome.replacing(other.user.lowercased, with: one.user.lowercased)
        #expect(after == before)
        #expect(try await phone.read(create.id).value(at: "/payload/title")?.string == "geheimnis")
        #expect(try await phone.push([refused]).results.map(\.outcome) == [first[1].outcome])
        #expect(try await gateway.database.mentions(of: "geheimnis") == [:])
    }

    @Test func `a join includes the users joined into the user before`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let phones = (0..<3).map { _ in Phone(gateway, organization) }
        for phone in phones { try await phone.push([phone.create()]) }
        try await phones[0].join(into: phones[1])
        try await phones[1].join(into: phones[2])
        for phone in phones {
            #expect(try await gateway.store.catalog.owner(of: phone.user, in: organization.id) == phones[2].user)
        }
        #expect(try await phones[2].rowCount("mutations") == 3)
    }

    // MARK: - Refusals

    @Test func `a refused join changes nothing`() async throws {
        let (one, other) = try await Self.phones()
        let (gateway, organization) = (one.gateway, one.organization)
        let third = Phone(gateway, organization)
        let stranger = Phone(gateway, try await gateway.organization())
        let pushed = one.forward("create", local: UUID())
        try await one.push([pushed])
        try await other.push([other.forward("create", local: UUID())])
        try await third.push([third.forward("create", local: UUID())])
        try await stranger.push([stranger.create()])

        func refusal(_ user: UUID, _ target: UUID) async throws -> String? {
            let before = try await gateway.everything()
            var refused: Problem?
            for _ in 0..<2 where refused == nil {
                do throws(Problem) {
                    let join = try await gateway.store.joining.join(user, into: target, in: organization.id)
                    if join == nil { return "unknown" }
                } catch {
                    refused = error
                }
                gateway.clock.advance(seconds: 9)
            }
            guard let refused else { return nil }
            #expect(refused.code == .validationFailed && refused.errors.map(\.pointer) == ["/into"])
            let after = try await gateway.everything()
            #expect(after == before, "\(refused.errors[0].rule)")
            return refused.errors[0].rule
        }

        #expect(try await refusal(one.user, one.user) == "join_same_user")
        #expect(try await refusal(UUID(), other.user) == "unknown")
        #expect(try await refusal(one.user, UUID()) == "join_unknown_user")
        #expect(try await refusal(one.user, stranger.user) == "join_unknown_user", "another organization's user")
        #expect(try await gateway.store.joining.join(one.user, into: other.user, in: UUID()) == nil)

        // both users have a device with the same id
        let twin = Phone(gateway, organization, user: other.user, device: one.device)
        try await twin.push([twin.forward("create", local: UUID())])
        #expect(try await refusal(one.user, other.user) == "join_devices_collide")
        try await other.execute("DELETE FROM devices WHERE \(other.owner) AND device_id = '\(one.device)'")
        for (table, columns) in [
            ("mutations", "id"), ("mutations", "idempotency_key"), ("id_mappings", "client_id"),
        ] {
            let (old, new) = (
                try await gateway.rows("SELECT \(columns)::text FROM \(table) WHERE \(other.owner) LIMIT 1")[0],
                try await gateway.rows("SELECT \(columns)::text FROM \(table) WHERE \(one.owner) LIMIT 1")[0]
            )
            try await other.execute(
                "UPDATE \(table) SET \(columns) = '\(new)' WHERE \(other.owner) AND \(columns) = '\(old)'"
            )
            #expect(try await refusal(one.user, other.user) == "join_ids_collide")
            try await other.execute(
                "UPDATE \(table) SET \(columns) = '\(old)' WHERE \(other.owner) AND \(columns) = '\(new)'"
            )
        }

        for phone in [one, other] {
            try await phone.execute("UPDATE lanes SET halted_by = '\(pushed.id)', ready_at = NULL WHERE \(phone.owner)")
        }
        #expect(try await refusal(one.user, other.user) == "join_both_halted")
        try await one.execute("UPDATE lanes SET halted_by = NULL WHERE organization_id = '\(organization.id)'")

        try await one.execute("UPDATE organizations SET status = 'suspended' WHERE id = '\(organization.id)'")
        #expect(try await refusal(one.user, other.user) == "join_organization_suspended")
        try await one.execute("UPDATE organizations SET status = 'active' WHERE id = '\(organization.id)'")

        try await one.execute("INSERT INTO gateways (id, seen_at) VALUES (gen_random_uuid(), clock_timestamp())")
        #expect(try await refusal(one.user, other.user) == "join_old_gateway")
        try await one.execute("DELETE FROM gateways WHERE newest_migration IS NULL")

        // a finished join, and one in progress
        try await one.join(into: other)
        #expect(try await refusal(one.user, third.user) == "join_already")
        #expect(try await refusal(third.user, one.user) == "join_chain")
        #expect(
            try await gateway.store.joining.join(third.user, into: other.user, in: organization.id)?.state == .closing
        )
        let fourth = Phone(gateway, organization)
        _ = try await gateway.store.administration.putUser(fourth.user, in: organization.id)
        #expect(try await refusal(other.user, fourth.user) == "join_chain")
        #expect(try await refusal(fourth.user, third.user) == "join_chain")
        #expect(try await refusal(third.user, fourth.user) == "join_already")
    }

    @Test func `refuses a join of more rows than one transaction may move`() async throws {
        let (one, other) = try await Self.phones()
        try await one.push([one.forward("create", local: UUID())])
        try await other.push([other.forward("create", local: UUID())])
        try await one.execute(
            """
            INSERT INTO rejections (organization_id, user_id, idempotency_key, device_id, sequence_number, error,
                rejected_at)
            SELECT '\(one.organization.id)', '\(one.user)', gen_random_uuid(), gen_random_uuid(), n, '{}', now()
            FROM generate_series(1, \(MergePreconditions.rowLimit)) n
            """
        )
        let problem = await #expect(throws: Problem.self) { try await one.join(into: other) }
        #expect(problem?.errors.map(\.rule) == ["join_too_large"])
        #expect(try await one.rowCount("mutations") == 1)
        #expect(try await one.rowCount("user_joins") == 0)
    }

    // MARK: - Concurrent requests

    @Test func `neither user is served during their join`() async throws {
        let (one, other) = try await Self.phones()
        try await one.push([one.forward("create", local: UUID())])
        try await other.push([other.forward("create", local: UUID())])
        let (store, organization) = (one.gateway.store, one.organization.id)
        #expect(try await store.joining.join(one.user, into: other.user, in: organization)?.state == .closing)
        for phone in [one, other] {
            let problem = await #expect(throws: Problem.self) {
                try await store.catalog.owner(of: phone.user, in: organization)
            }
            #expect(problem?.code == .overloaded && problem?.retryAfter == 2)
            #expect(store.catalog.cached(organization, phone.user) == nil)
        }
        // no call continues the join, so both users are served as before
        one.gateway.clock.advance(seconds: UserJoining.closedSeconds + 1)
        for phone in [one, other] {
            #expect(try await store.catalog.owner(of: phone.user, in: organization) == phone.user)
        }
        #expect(try await one.push([one.forward("create", local: UUID())]).results[0].status == "pending")
        // the next call starts from the beginning
        #expect(try await store.joining.join(one.user, into: other.user, in: organization)?.state == .closing)
        one.gateway.clock.advance(seconds: 3)
        #expect(try await store.joining.join(one.user, into: other.user, in: organization)?.state == .closing)
        try await one.join(into: other)
        #expect(try await other.rowCount("mutations") == 3)
    }

    @Test(arguments: [true, false]) func `a join waits for a held lease`(isTarget: Bool) async throws {
        let (one, other) = try await Self.phones()
        let pushed = one.forward("create", local: UUID())
        try await one.push([pushed])
        try await other.push([other.forward("create", local: UUID())])
        let held = isTarget ? other : one
        let (store, organization) = (one.gateway.store, one.organization.id)
        try await held.execute(
            """
            UPDATE lanes SET lease_owner = '\(UUID())', ready_at = '2100-01-01T00:00:00Z', lease_token = 7
            WHERE \(held.owner)
            """
        )
        for _ in 0..<3 {
            #expect(try await store.joining.join(one.user, into: other.user, in: organization)?.state == .closing)
            one.gateway.clock.advance(seconds: 9)
        }
        #expect(try await one.rowCount("mutations") == 1)
        try await held.execute("UPDATE lanes SET lease_owner = NULL, ready_at = NULL WHERE \(held.owner)")
        #expect(try await store.joining.join(one.user, into: other.user, in: organization)?.state == .done)
        #expect(try #require(try await other.lane()).lease.token == 7, "tokens only grow")
    }

    @Test func `a push that waits for the lane during a join must be retried`() async throws {
        let (one, other) = try await Self.phones()
        try await one.push([one.forward("create", local: UUID())])
        try await other.push([other.forward("create", local: UUID())])
        let late = one.forward("create", local: UUID())
        // another gateway has not been notified of the join and processes a push of the first user
        let elsewhere = try await Gateway(replicaOf: one.gateway)
        let phone = one.signedIn(as: one.user, through: elsewhere)
        _ = try await elsewhere.known(one.organization.id)
        let store = one.gateway.store
        _ = try await store.joining.join(one.user, into: other.user, in: one.organization.id)
        one.gateway.clock.advance(seconds: 9)
        let held = try await HeldLane(one)
        async let join = store.joining.join(one.user, into: other.user, in: one.organization.id)
        try await one.gateway.waitForLocks(1)
        async let push = phone.push([late])
        try await one.gateway.waitForLocks(2)
        try await held.release()
        _ = try await join
        do {
            _ = try await push
            // the push was committed first, and the next call moved it with the other rows
            try await one.join(into: other)
        } catch let problem as Problem {
            #expect(problem.code == .overloaded && problem.retryAfter != nil)
        }
        #expect(try await one.rowCount("lanes") == 0)
        #expect(try await one.rowCount("mutations") == 0)
        let again = one.signedIn(as: other.user)
        _ = try await again.push([late])
        #expect(try await again.push([late]).results[0].isReplayed == true)
        #expect(try await other.rowCount("mutations") == 3)
        #expect(try await other.disorder() == [])
    }

    @Test func `a gateway that has not been notified of the join creates nothing for the user`() async throws {
        let (one, other) = try await Self.phones()
        try await one.push([one.forward("create", local: UUID())])
        try await other.push([other.forward("create", local: UUID())])
        let elsewhere = try await Gateway(replicaOf: one.gateway)
        let phone = one.signedIn(as: one.user, through: elsewhere)
        let refused = try await { () async throws -> [Problem] in
            try await one.join(into: other)
            // its clock does not advance, so its cache does not expire
            var problems: [Problem] = []
            for operation in 0..<3 {
                _ = try await elsewhere.known(one.organization.id)
                do throws(Problem) {
                    switch operation {
                    case 0:
                        _ = try await elsewhere.store.devices.register(
                            UUID(),
                            organization: one.organization,
                            user: one.user
                        )
                    case 1:
                        _ = try await elsewhere.store.devices.register(
                            one.device,
                            organization: one.organization,
                            user: one.user
                        )
                    default:
                        let request = try PushRequest(
                            body: Array(
                                #"{"device_id":"\#(phone.device.lowercased)","mutations":[\#(phone.forward("create", local: UUID()).json)]}"#
                                    .utf8
                            ),
                            limits: IntakeLimits()
                        )
                        _ = try await elsewhere.store.pushes.submit(
                            request,
                            organization: one.organization,
                            user: one.user,
                            isStrict: false
                        )
                    }
                } catch {
                    problems.append(error)
                }
            }
            return problems
        }()
        #expect(refused.map(\.code) == [.overloaded, .overloaded, .overloaded])
        for table in Self.tables { #expect(try await one.rowCount(table) == 0, "\(table)") }
    }

    @Test func `a call resumes an interrupted join`() async throws {
        let (one, other) = try await Self.phones()
        try await one.push((0..<20).map { _ in one.forward("create", local: UUID()) })
        try await other.push([other.forward("create", local: UUID())])
        let (store, organization) = (one.gateway.store, one.organization.id)
        _ = try await store.joining.join(one.user, into: other.user, in: organization)
        one.gateway.clock.advance(seconds: 9)
        let before = try await one.gateway.everything(but: ["user_joins"])
        // this is inside the transaction that moves the rows, so other transactions do not see the moved rows yet
        let blocker = try await one.gateway.database.connect()
        try await blocker.execute(
            script: "BEGIN; SELECT FROM user_joins WHERE organization_id = '\(organization)' FOR UPDATE"
        )
        // the last statement of the join writes its row a second time, and waits for the lock
        async let cut = store.joining.join(one.user, into: other.user, in: organization)
        try await one.gateway.waitForLocks(1)
        try await one.gateway.killWaiters()
        do {
            _ = try await cut
            Issue.record("the join was not interrupted")
        } catch {
            #expect((error as? Problem)?.code == .storeUnavailable)
        }
        try await blocker.execute(script: "ROLLBACK")
        await blocker.closeAndWait()
        #expect(try await one.gateway.everything(but: ["user_joins"]) == before)
        let restarted = try await Gateway(replicaOf: one.gateway)
        restarted.clock.set(one.gateway.clock.now)
        #expect(try await restarted.store.joining.join(one.user, into: other.user, in: organization)?.state == .done)
        #expect(try await other.rowCount("mutations") == 21)
        #expect(try await other.disorder() == [])
    }

    /// The join is interrupted between the move and the last step. The users are merged, and the next call publishes
    /// the private entities.
    @Test func `the next call publishes entities that an interrupted join had not published`() async throws {
        let (one, other) = try await Self.phones()
        try await one.push([one.forward("create", local: UUID())])
        try await other.push([other.forward("create", local: UUID())])
        try await one.execute(
            """
            INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id, updated_by,
                updated_on, run_base, created_at, updated_at)
            VALUES ('\(one.organization.id)', 'task', '1', 1, '{}', 1, '\(one.user)', '\(one.user)', '\(one.device)', 0, now(),
                now());
            UPDATE feeds SET last_position = 1 WHERE organization_id = '\(one.organization.id)'
            """
        )
        try await one.join(into: other)
        try await one.execute("UPDATE user_joins SET finished_at = NULL; UPDATE entities SET feed_position = 1")
        let again = try await one.gateway.store.joining.join(one.user, into: other.user, in: one.organization.id)
        #expect(again?.state == .done)
        #expect(try await one.gateway.rows("SELECT feed_position::text FROM entities") == ["4"])
    }

    // MARK: - Known users, provisioned users

    /// These users have only read, so the gateway has only their subjects.
    @Test func `joins users that have a subject and never pushed`() async throws {
        let gateway = try await Gateway()
        let organization = try await gateway.organization()
        let subjects = ["old", "new"].map { Subject(issuer: "https://id.example", text: ByteExactString($0)) }
        var users: [UUID] = []
        for subject in subjects { users.append(try await gateway.store.identities.make(subject, in: organization)) }
        let joining = gateway.store.joining
        let first = try await joining.join(users[0], into: users[1], in: organization.id)
        #expect(first?.state == .closing)
        gateway.clock.advance(seconds: 9)
        #expect(try await joining.join(users[0], into: users[1], in: organization.id)?.state == .done)
        let old = try #require(try await gateway.store.identities.user(subjects[0], in: organization))
        #expect(try await gateway.store.catalog.owner(of: old, in: organization.id) == users[1])
        #expect(try await joining.join(UUID(), into: users[1], in: organization.id) == nil)
    }

    @Test func `a join provisions no user`() async throws {
        let (one, other) = try await Self.phones(#"{"provisioning":"explicit"}"#)
        let (gateway, organization) = (one.gateway, one.organization.id)
        let administration = gateway.store.administration
        for phone in [one, other] { try await phone.push([phone.forward("create", local: UUID())]) }
        #expect(
            try await gateway.rows("SELECT user_id::text FROM users") == [],
            "a push does not provision a user either"
        )
        func join() async throws -> UserJoinRow? {
            try await gateway.store.joining.join(one.user, into: other.user, in: organization)
        }
        func refusal() async -> [String] {
            do throws(Problem) {
                _ = try await gateway.store.joining.join(one.user, into: other.user, in: organization)
                return []
            } catch {
                return error.errors.map(\.rule)
            }
        }
        // one of the users is provisioned, and the other would gain or keep access through the join
        for (inside, outside) in [(one, other), (other, one)] {
            _ = try await administration.putUser(inside.user, in: organization)
            _ = try await administration.deleteUser(outside.user, in: organization)
            #expect(await refusal() == ["join_shut_out"])
            #expect(try await gateway.rows("SELECT user_id::text FROM user_joins") == [])
        }
        // if access is removed during the join, the join is refused and both users are unchanged
        for phone in [one, other] { _ = try await administration.putUser(phone.user, in: organization) }
        #expect(try await join()?.state == .closing)
        _ = try await administration.deleteUser(other.user, in: organization)
        #expect(await refusal() == ["join_shut_out"])
        #expect(try await gateway.rows("SELECT user_id::text FROM user_joins") == [])
        // neither user has access, and the joined user has no access either
        _ = try await administration.deleteUser(one.user, in: organization)
        try await one.join(into: other)
        #expect(try await gateway.rows("SELECT user_id::text FROM users") == [])
        // access can be granted and removed by the joined user's id
        #expect(try await administration.putUser(one.user, in: organization) == true)
        #expect(try await gateway.rows("SELECT user_id::text FROM users") == [other.user.lowercased])
        #expect(try await administration.putUser(other.user, in: organization) == false)
        #expect(try await administration.deleteUser(one.user, in: organization))
        #expect(try await gateway.rows("SELECT user_id::text FROM users") == [])
    }

    /// A position in the first lane identifies a different change in the second lane.
    @Test func `cursors of a joined user are invalid in the lane of the remaining user`() async throws {
        let (one, other) = try await Self.phones()
        for phone in [one, other] { try await phone.push((0..<3).map { _ in phone.forward("create", local: UUID()) }) }
        let (store, organization) = (one.gateway.store, one.organization.id)
        let lanes = [one, other].map { LaneKey(organization: organization, user: $0.user) }
        func mappings(_ since: String?, _ user: UUID) async throws -> JSONValue {
            let page = try await store.mappings.list(
                since: since,
                statuses: [],
                limit: 100,
                organization: organization,
                user: user
            )
            return try JSONTree(parsing: page.json()).root
        }
        let (mine, theirs) = (
            try #require(try await mappings(nil, one.user).next), try #require(try await mappings(nil, other.user).next)
        )
        var events: [String] = []
        for lane in lanes { events.append(try await store.events.start(after: nil, of: lane).text) }
        try await one.join(into: other)

        await #expect(throws: Problem.self) { try await mappings(mine, other.user) }
        do throws(Problem) {
            _ = try await store.events.start(after: events[0], of: lanes[1])
            Issue.record("this cursor would miss earlier changes of the other user")
        } catch {
            #expect(error.code == .cursorExpired)
        }
        // the other user's own cursors continue: the moved rows come after them
        #expect(try await mappings(theirs, other.user).list("id_mappings").count == 3)
        #expect(try await mappings(nil, other.user).list("id_mappings").count == 6)
        let cursor = try await store.events.start(after: events[1], of: lanes[1])
        #expect(try await store.events.page(after: cursor, of: lanes[1]).events.count == 6)
        // a cursor of an earlier version does not contain its user, and remains valid
        let epoch: Int64 = try await one.gateway.read("SELECT epoch FROM feeds").read(0, 0)
        let old = MappingCursor(epoch: epoch, filter: 0, place: LanePlace(change: 0))
        #expect(try await mappings(old.text, other.user).list("id_mappings").count == 6)
    }
}

extension Phone {
    /// Joins the phone's user into the user of another phone. Calls the join a second time if it is not complete.
    func join(into other: Phone) async throws {
        for _ in 0..<2 {
            let join = try await gateway.store.joining.join(user, into: other.user, in: organization.id)
            if join?.state == .done { return }
            gateway.clock.advance(seconds: 9)
        }
        Issue.record("the join did not end")
    }

    func rowCount(_ table: String) async throws -> Int64 {
        try await gateway.read("SELECT count(*) FROM \(table) WHERE \(owner)").read(0, 0, as: Int64.self)
    }

    func lane() async throws -> LaneState? {
        let key = LaneKey(organization: organization.id, user: user)
        return try await LaneRows.lanes(gateway.store.pool.run([LaneRows.find([key])])[0])[key]
    }
}

extension Gateway {
    /// Returns every row of the tables with data of users, as text.
    func everything(but left: Set<String> = []) async throws -> [String: [String]] {
        let tables = try await rows(
            """
            SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
            WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                AND a.attname = 'organization_id' ORDER BY 1
            """
        )
        var found: [String: [String]] = [:]
        for table in tables where !left.contains(table) {
            found[table] = try await rows("SELECT t::text FROM \(table) t ORDER BY 1")
        }
        return found
    }
}
