import AdministrationFeature
import Foundation
import JSONText
import Logging
import Postgres
import StoreSupport
import SyncModel
import Synchronization
import TestSupport
import Testing

@testable import OperatorsFeature
@testable import SyncStore
@testable import UsersFeature

/// Operators' retries, discards and resolves of many mutations, executed by any gateway.
@Suite struct OperationTests {
    /// Works on an operation to its end, or until `rest` returns that the gateway must stop.
    @discardableResult
    private static func work(
        _ gateway: Gateway,
        rest: @escaping @Sendable (Double) async throws -> Bool = { _ in false }
    ) async throws -> OperationRow? {
        let run = gateway.store.operationRun(of: UUID())
        guard let claimed = try await run.claim() else { return nil }
        let hasStopped = Mutex(false)
        await run.work(on: claimed) {
            hasStopped.withLock { $0 }
        } rest: { seconds in
            let stops = (try? await rest(seconds)) ?? true
            hasStopped.withLock { $0 = stops }
        }
        return try await gateway.store.operations.operation(claimed.id, in: claimed.organization)
    }

    private static let tasks = """
        "filter":{"entity_type":"task","error_code":"upstream_rejected","response_status":422}
        """

    @Test func `a bulk retry includes the mutations that were stuck at its creation`() async throws {
        let one = try await Phone.forwarding()
        let (two, gateway) = (one.neighbour(), one.gateway)
        let mine = try await one.pushStuck(3)
        let theirs = try await two.pushStuck(2)
        let notes = try await two.pushStuck(1, "note")
        gateway.clock.advance(seconds: 1)
        let made = try await gateway.operation(#""kind":"retry",\#(Self.tasks)"#, in: one.organization.id)
        #expect(made.state == .running && made.actor == "anna" && made.reason == "a test" && made.startedAt == nil)
        gateway.clock.advance(seconds: 1)
        let late = try await one.pushStuck(1)
        let ended = try #require(try await Self.work(gateway))
        #expect(ended.summary == "done: 5 = 5 + 0 + 0" && ended.gateway == nil && ended.endedAt != nil)
        #expect(try await one.statuses(mine) == ["pending", "pending", "pending"])
        #expect(try await two.statuses(theirs) == ["pending", "pending"])
        #expect(try await two.statuses(notes) == ["failed"])
        #expect(try await one.statuses(late) == ["failed"])
        #expect(try await one.disorder() == [])
        #expect(try await Self.work(gateway) == nil, "no operation is due any more")
    }

    @Test func `a bulk retry does not repeat mutations that fail again`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        let entries = try await one.pushStuck(3)
        let operation = #""kind":"retry","per_second":1,"filter":{}"#
        _ = try await gateway.operation(operation, in: one.organization.id)
        let ended = try await Self.work(gateway) { _ in
            gateway.clock.advance(seconds: 1)
            for entry in entries where try await one.read(entry.id).status == "pending" {
                try await one.stick(entry.id)
            }
            return false
        }
        #expect(ended?.summary == "done: 3 = 3 + 0 + 0")
        #expect(try await one.statuses(entries) == ["failed", "failed", "failed"])
    }

    @Test func `an operation does not exceed its rate`() async throws {
        let one = try await Phone.forwarding()
        try await one.pushStuck(7)
        _ = try await one.gateway.operation(#""kind":"retry","per_second":2,"filter":{}"#, in: one.organization.id)
        let pauses = Mutex<[Double]>([])
        let began = ContinuousClock.now
        let ended = try await Self.work(one.gateway) { seconds in
            pauses.withLock { $0.append(seconds) }
            return false
        }
        let took = Double((ContinuousClock.now - began).components.seconds + 1)
        #expect(ended?.summary == "done: 7 = 7 + 0 + 0")
        // three steps of two before the last; the duration of the steps counts
        #expect(pauses.withLock { $0.count } == 3 && pauses.withLock { $0.reduce(0, +) } + took >= 3)
        #expect(pauses.withLock { $0.allSatisfy { $0 <= 1 } })
    }

    @Test func `cancelling an operation leaves the remaining mutations unchanged`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        let entries = try await one.pushStuck(5)
        let made = try await gateway.operation(#""kind":"retry","per_second":2,"filter":{}"#, in: one.organization.id)
        let ended = try await Self.work(gateway) { _ in
            _ = try await gateway.store.operations.cancel(made.id, in: one.organization.id)
            return false
        }
        #expect(ended?.state == .cancelled && ended?.tally.done == 2 && ended?.endedAt != nil)
        #expect(try await one.statuses(entries).filter { $0 == "failed" }.count == 3)
        // a repeated cancellation changes nothing, and is not an error
        let again = try await gateway.store.operations.cancel(made.id, in: one.organization.id)
        #expect(again?.endedAt == ended?.endedAt && again?.state == .cancelled)
        #expect(try await Self.work(gateway) == nil)
    }

    // MARK: - Failures

    /// Works on an operation as a gateway does, until it ends.
    private static func workThroughFailures(_ gateway: Gateway, of id: UUID, in organization: UUID) async throws
        -> OperationRow
    {
        let run = gateway.store.operationRun(of: UUID())
        for _ in 0..<2 * Int(OperationRun.maxConsecutiveFailures) {
            if let claimed = try await run.claim() {
                await run.work(on: claimed, shouldStop: { false }, rest: { _ in })
            }
            let row = try #require(try await gateway.store.operations.operation(id, in: organization))
            if row.endedAt != nil { return row }
            gateway.clock.advance(seconds: OperationRun.pause)
        }
        return try #require(try await gateway.store.operations.operation(id, in: organization))
    }

    /// In an earlier version, the operation was resumed with the same page forever.
    @Test func `a mutation that cannot be settled in time fails alone, and all others are settled`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        let entries = try await one.pushStuck(5)
        try await one.execute(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.id = '\(entries[2].id)' THEN RAISE 'contended' USING ERRCODE = '40001'; END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER refuse BEFORE UPDATE ON mutations FOR EACH ROW EXECUTE FUNCTION refuse()
            """
        )
        let made = try await gateway.operation(#""kind":"retry","filter":{}"#, in: one.organization.id)
        let ended = try await Self.workThroughFailures(gateway, of: made.id, in: one.organization.id)
        #expect(ended.summary == "done: 5 = 4 + 0 + 1" && ended.reasons == ["overloaded": 1], "\(ended.reasons)")
        #expect(try await one.statuses(entries) == ["pending", "pending", "failed", "pending", "pending"])
    }

    @Test func `an operation whose steps always fail ends as failed, with the reason`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        try await one.pushStuck(1)
        // the trigger lets the operation be claimed, released and ended, but refuses to record the progress of a step
        try await one.execute(
            """
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.done = OLD.done AND NEW.lease_token = OLD.lease_token AND NEW.lease_owner IS NOT NULL THEN
                    RAISE 'no';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER refuse BEFORE UPDATE ON operations FOR EACH ROW EXECUTE FUNCTION refuse()
            """
        )
        let made = try await gateway.operation(#""kind":"retry","filter":{}"#, in: one.organization.id)
        let ended = try await Self.workThroughFailures(gateway, of: made.id, in: one.organization.id)
        #expect(ended.state == .failed)
        #expect(ended.error?.contains("100 consecutive failures") == true, "\(ended.error ?? "no error")")
        #expect(ended.error?.contains("internal_error") == true)
    }

    @Test func `failures halve the page, and completed steps double it again`() {
        let setbacks = OperationSetbacks()
        let id = UUID()
        func limit() -> Int { setbacks.limit(of: id, atMost: OperationPace.batch) }
        var limits: [Int] = []
        for count in 1...OperationSetbacks.attempts {
            #expect(!setbacks.leavesMutation(of: id))
            #expect(setbacks.recordFailure(of: id) == Int64(count))
            limits.append(limit())
        }
        #expect(limits == [25, 12, 6, 3, 1, 1, 1, 1, 1, 1])
        #expect(setbacks.leavesMutation(of: id))
        var failed = OperationTally()
        failed.fail(.overloaded, 1)
        #expect(setbacks.record(failed, of: id) == Int64(OperationSetbacks.attempts) + 1)
        #expect(!setbacks.leavesMutation(of: id) && limit() == 1)
        var skipped = OperationTally()
        skipped.skip(.notFound)
        #expect((0..<6).map { _ in (setbacks.record(skipped, of: id), limit()).1 } == [1, 3, 6, 12, 25, 50])
    }

    @Test(.onOneServer("locks of one server"))
    func `an evaluation examines fewer entities after a step that failed`() async throws {
        // each of the four attempts waits for the lock
        let gateway = try await Gateway(lockTimeout: .seconds(2))
        let organization = try await gateway.organization()
        let update = try EntityTypeUpdate(body: Array(#"{"visibility":"channels","channels":["all"]}"#.utf8))
        _ = try await gateway.store.administration.putEntityType("task", in: organization.id, update)
        let source = EventSource(gateway, try await gateway.known(organization.id))
        _ = try await source.send((0..<4).map { EventSource.event("e\($0)", "\($0)", version: 1) })
        let evaluation = #""kind":"evaluate","per_second":4,"filter":{"entity_type":"task"}"#
        let made = try await gateway.operation(evaluation, in: organization.id)
        let run = gateway.store.operationRun(of: UUID())
        let done = Mutex<[Int64]>([])
        func work() async throws {
            let claimed = try #require(try await run.claim())
            await run.work(on: claimed, shouldStop: { false }) { _ in
                let now = try? await gateway.store.operations.operation(made.id, in: organization.id)
                done.withLock { $0.append(now?.tally.done ?? -1) }
            }
        }
        let other = try await gateway.database.connect()
        defer { other.close() }
        try await other.execute(
            script: "BEGIN; SELECT FROM entities WHERE organization_id = '\(organization.id.lowercased)' FOR UPDATE"
        )
        try await work()
        #expect(done.withLock { $0 } == [])
        try await other.execute(script: "ROLLBACK")
        gateway.clock.advance(seconds: OperationRun.pause)
        try await work()
        #expect(done.withLock { $0 } == [2], "half of the first step, and then the rest")
        let ended = try await gateway.store.operations.operation(made.id, in: organization.id)
        #expect(ended?.state == .done && ended?.tally.done == 4)
    }

    // MARK: - Several gateways

    @Test func `a stopping gateway releases its operation and another resumes it immediately`() async throws {
        let one = try await Phone.forwarding()
        let other = try await Gateway(replicaOf: one.gateway)
        other.clock.set(one.gateway.clock.now)
        let entries = try await one.pushStuck(5)
        _ = try await one.gateway.operation(#""kind":"retry","per_second":2,"filter":{}"#, in: one.organization.id)
        let first = try await Self.work(one.gateway) { _ in true }
        #expect(first?.summary == "running: 2 = 2 + 0 + 0" && first?.gateway == nil)
        let ended = try await Self.work(other)
        #expect(ended?.summary == "done: 5 = 5 + 0 + 0")
        #expect(try await one.statuses(entries) == Array(repeating: "pending", count: 5))
    }

    @Test func `an operation of a dead gateway is taken over, and the gateway's return changes nothing`() async throws {
        let one = try await Phone.forwarding()
        let other = try await Gateway(replicaOf: one.gateway)
        let entries = try await one.pushStuck(6)
        _ = try await one.gateway.operation(#""kind":"retry","per_second":2,"filter":{}"#, in: one.organization.id)
        let taken = Mutex<[String]>([])
        let seen = try await Self.work(one.gateway) { _ in
            other.clock.set(one.gateway.clock.now)
            let early = try await Self.work(other)
            other.clock.advance(seconds: OperationRun.leaseSeconds + 1)
            let ended = try await Self.work(other)
            taken.withLock { $0 = [early?.summary ?? "-", ended?.summary ?? "-"] }
            return false
        }
        #expect(taken.withLock { $0 } == ["-", "done: 6 = 6 + 0 + 0"])
        #expect(seen?.summary == "done: 6 = 6 + 0 + 0")
        #expect(try await one.statuses(entries) == Array(repeating: "pending", count: 6))
    }

    @Test func `an operation skips mutations that were settled and failed again`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        let entries = try await one.pushStuck(3)
        _ = try await gateway.operation(#""kind":"discard","filter":{}"#, in: one.organization.id)
        let claimed = try #require(try await gateway.store.operationRun(of: UUID()).claim())
        let found = entries.map { FailureQuery.Place(at: gateway.clock.now, user: one.user, id: $0.id) }
        gateway.clock.advance(seconds: 1)
        let anew = gateway.clock.now.rfc3339
        try await one.execute("UPDATE mutations SET stuck_at = '\(anew)' WHERE id = '\(entries[1].id)'")
        func settle(_ kind: OperationKind, lease: Int64) async throws -> OperationTally {
            try await gateway.store.settling.operate(
                kind,
                on: OperationDisplay(
                    organization: one.organization.id,
                    operation: claimed.id,
                    lease: lease,
                    found: found
                ),
                of: LaneKey(organization: one.organization.id, user: one.user),
                in: one.organization,
                dependants: .discard,
                strategy: nil
            ) {
                Query(
                    OperationStatements.count,
                    Parameters(of: one.organization.id, claimed.id, Int64($0), gateway.clock.now)
                )
            }
        }
        // another gateway has the lease
        for kind in [OperationKind.retry, .discard, .resolve] {
            #expect(try await settle(kind, lease: claimed.token - 1).done == 0)
        }
        #expect(try await one.statuses(entries) == ["failed", "failed", "failed"])
        #expect(try await settle(.discard, lease: claimed.token).done == 2)
        #expect(try await one.statuses(entries) == ["discarded", "failed", "discarded"])
        _ = try await gateway.store.operations.cancel(claimed.id, in: one.organization.id)
        #expect(try await settle(.retry, lease: claimed.token).done == 0)
    }

    @Test func `an operation on a user ends when the user is joined into another user`() async throws {
        let one = try await Phone.forwarding()
        let (two, gateway) = (one.neighbour(), one.gateway)
        let (mine, theirs) = (try await one.pushStuck(3), try await two.pushStuck(2))
        let filter = #""filter":{"user_id":"\#(one.user.lowercased)"}"#
        let made = try await gateway.operation(#""kind":"discard",\#(filter)"#, in: one.organization.id)
        let all = try await gateway.operation(#""kind":"retry","filter":{}"#, in: one.organization.id)
        _ = try await gateway.store.joining.join(one.user, into: two.user, in: one.organization.id)
        gateway.clock.advance(seconds: 9)
        let joined = try await gateway.store.joining.join(one.user, into: two.user, in: one.organization.id)
        #expect(joined?.state == .done)
        let ended = try await gateway.store.operations.operation(made.id, in: one.organization.id)
        #expect(ended?.state == .failed && ended?.error?.contains("became part of another") == true)
        #expect(ended?.endedAt == gateway.clock.now)
        #expect(try await two.statuses(mine + theirs) == Array(repeating: "failed", count: 5))
        let next = try await Self.work(gateway)
        #expect(next?.id == all.id && next?.state == .done)
    }

    @Test func `refuses an operation on an erased user`() async throws {
        let one = try await Phone.forwarding()
        try await one.push([one.create("note")])
        try await one.erase()
        let refused = await #expect(throws: Problem.self) {
            try await one.gateway.operation(
                #""kind":"retry","filter":{"user_id":"\#(one.user.lowercased)"}"#,
                in: one.organization.id
            )
        }
        #expect(refused?.code == .userErased && refused?.errors.map(\.pointer) == ["/filter/user_id"])
        #expect(try await one.gateway.mentions(of: one.user.lowercased, in: one.organization.id) == [:])
    }

    @Test func `concurrent requests do not exceed the limit of running operations`() async throws {
        let one = try await Phone.forwarding()
        let made = await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<30 {
                group.addTask {
                    let operation = #""kind":"retry","filter":{}"#
                    return (try? await one.gateway.operation(operation, in: one.organization.id)) != nil
                }
            }
            return await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
        }
        #expect(made == 20)
    }

    // MARK: - Discarding and resolving

    @Test func `a discard skips mutations with dependents unless it has a choice for dependents`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        let (needed, free) = (one.forward("create", local: UUID()), one.forward("create", local: UUID()))
        let follower = one.forward("update", local: needed.local, payload: #"{"title":"y"}"#)
        try await one.push([needed, free, follower])
        for entry in [needed, free] { try await one.stick(entry.id) }
        _ = try await gateway.operation(#""kind":"discard","filter":{}"#, in: one.organization.id)
        let careful = try #require(try await Self.work(gateway))
        #expect(careful.summary == "done: 2 = 1 + 1 + 0" && careful.reasons == ["validation_failed": 1])
        #expect(try await one.statuses([needed, free, follower]) == ["failed", "discarded", "blocked"])
        _ = try await gateway.operation(
            #""kind":"discard","dependents":"discard","filter":{}"#,
            in: one.organization.id
        )
        let whole = try #require(try await Self.work(gateway))
        #expect(whole.summary == "done: 1 = 1 + 0 + 0", "dependents are not among the selected mutations")
        #expect(try await one.statuses([needed, follower]) == ["discarded", "discarded"])
        #expect(try await one.disorder() == [])
    }

    @Test func `resolves conflicts and leaves failures unchanged`() async throws {
        let one = try await Phone.forwarding()
        let gateway = one.gateway
        let failed = try await one.pushStuck(1)
        let update = one.forward("update", server: "7", payload: #"{"title":"mine"}"#)
        try await one.push([update])
        try await one.stick(update.id, "conflict", 409)
        _ = try await gateway.operation(
            #""kind":"resolve","strategy":"client_wins","filter":{}"#,
            in: one.organization.id
        )
        let ended = try #require(try await Self.work(gateway))
        #expect(ended.state == .done && ended.matched == 1, "\(ended.summary) \(ended.reasons)")
        #expect(try await one.statuses(failed) == ["failed"])
    }

    @Test func `an operation shows the number of mutations that matched at its creation`() async throws {
        let one = try await Phone.forwarding()
        try await one.pushStuck(3)
        let gateway = one.gateway
        let made = try await gateway.operation(#""kind":"retry","filter":{}"#, in: one.organization.id)
        #expect(made.total == BoundedCount(found: 3) && made.matched == 0)
        gateway.clock.advance(seconds: 1)
        try await one.pushStuck(1)
        let ended = try #require(try await Self.work(gateway))
        #expect(ended.total == BoundedCount(found: 3) && ended.matched == 3, "\(ended.summary)")
        let none = try await gateway.operation(
            #""kind":"retry","filter":{"entity_type":"nothing"}"#,
            in: one.organization.id
        )
        #expect(none.total == BoundedCount(found: 0))
    }

    // MARK: - Filters

    @Test func `a preview returns the number and the first mutations`() async throws {
        let one = try await Phone.forwarding()
        let two = one.neighbour()
        try await one.pushStuck(22)
        try await two.pushStuck(1)
        let stranger = try await one.gateway.organization()
        let draft = try one.gateway.draft(#""kind":"retry",\#(Self.tasks)"#)
        let preview = try await one.gateway.store.operations.preview(draft, in: one.organization.id)
        #expect(preview.count == BoundedCount(found: 23) && preview.users == BoundedCount(found: 2))
        #expect(preview.sample.count == OperationStore.sample)
        #expect(preview.sample.allSatisfy { $0.lane.organization == one.organization.id && $0.detail != nil })
        let theirs = try await one.gateway.store.operations.preview(draft, in: stranger.id)
        #expect(theirs.count.count == 0 && theirs.sample.isEmpty)
    }

    @Test func `ids and a user restrict an operation`() async throws {
        let one = try await Phone.forwarding()
        let two = one.neighbour()
        let (mine, theirs) = (try await one.pushStuck(2), try await two.pushStuck(1))
        let names = [mine[0].id, UUID()].map { "\"\($0.lowercased)\"" }.joined(separator: ",")
        _ = try await one.gateway.operation(#""kind":"retry","filter":{"ids":[\#(names)]}"#, in: one.organization.id)
        #expect(try await Self.work(one.gateway)?.summary == "done: 1 = 1 + 0 + 0")
        #expect(try await one.statuses(mine) == ["pending", "failed"])
        let user = #""kind":"retry","filter":{"user_id":"\#(two.user.lowercased)"}"#
        _ = try await one.gateway.operation(user, in: one.organization.id)
        #expect(try await Self.work(one.gateway)?.summary == "done: 1 = 1 + 0 + 0")
        #expect(try await two.statuses(theirs) == ["pending"])
        #expect(try await one.statuses(mine) == ["pending", "failed"])
    }

    // MARK: - Organizations and limits

    @Test func `another organization can neither read nor cancel an operation`() async throws {
        let one = try await Phone.forwarding()
        let entries = try await one.pushStuck(1)
        let stranger = try await one.gateway.organization()
        let store = one.gateway.store.operations
        let ids = #""kind":"retry","filter":{"ids":["\#(entries[0].id.lowercased)"]}"#
        let theirs = try await one.gateway.operation(ids, in: stranger.id)
        #expect(try await Self.work(one.gateway)?.summary == "done: 0 = 0 + 0 + 0")
        #expect(try await one.statuses(entries) == ["failed"])
        #expect(try await store.operation(theirs.id, in: one.organization.id) == nil)
        let mine = try await one.gateway.operation(#""kind":"retry","filter":{}"#, in: one.organization.id)
        #expect(try await store.cancel(mine.id, in: stranger.id) == nil)
        #expect(try await store.operation(mine.id, in: one.organization.id)?.state == .running)
        #expect(
            try await store.list(of: stranger.id, state: nil, limit: 10, cursor: nil).operations.map(\.id) == [
                theirs.id
            ]
        )
        #expect(try await store.make(try one.gateway.draft(ids), in: UUID(), by: "anna") == nil)
    }

    @Test func `limits the running operations and pages the list`() async throws {
        let one = try await Phone.forwarding()
        let stranger = try await one.gateway.organization()
        let all = #""kind":"retry","filter":{}"#
        var ids: [UUID] = []
        for _ in 0..<OperationStore.atOnce {
            one.gateway.clock.advance(seconds: 1)
            ids.append(try await one.gateway.operation(all, in: one.organization.id).id)
        }
        await #expect(throws: Problem.self) { _ = try await one.gateway.operation(all, in: one.organization.id) }
        ids.append(try await one.gateway.operation(all, in: stranger.id).id)
        let store = one.gateway.store.operations
        _ = try await store.cancel(ids[0], in: one.organization.id)
        for (organization, wanted) in [(nil, ids), (Optional(one.organization.id), Array(ids.dropLast()))] {
            var (found, cursor): ([UUID], String?) = ([], nil)
            repeat {
                let page = try await store.list(of: organization, state: nil, limit: 7, cursor: cursor)
                (found, cursor) = (found + page.operations.map(\.id), page.next)
            } while cursor != nil
            #expect(found == wanted.reversed() || Set(found) == Set(wanted) && found.count == wanted.count)
        }
        #expect(
            try await store.list(of: nil, state: .cancelled, limit: 50, cursor: nil).operations.map(\.id) == [ids[0]]
        )
        await #expect(throws: Problem.self) { _ = try await store.list(of: nil, state: nil, limit: 7, cursor: "p1.x") }
        #expect(try await one.gateway.operation(all, in: one.organization.id).state == .running)
    }

    // MARK: - Fair shares

    /// Four organizations have a long operation each, so every slot is occupied.
    @Test func `operations of other organizations do not wait for long ones to end`() async throws {
        let first = try await Phone.forwarding()
        let gateway = first.gateway
        func phone() async throws -> Phone {
            let plain = try await gateway.organization()
            let id = plain.id.lowercased
            try await first.execute(
                """
                INSERT INTO upstreams VALUES ('\(id)', 'http://localhost:1', NULL, 30, 8, '/id', '{}', now());
                INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded)
                VALUES ('\(id)', 'task', 'mapped', 'user', 0, true)
                """
            )
            gateway.store.catalog.invalidate(plain.id)
            return Phone(gateway, try #require(try await gateway.store.catalog.organization(plain.id)))
        }
        var long: [OperationRow] = []
        for number in 0..<OperationService.places {
            let phone = number == 0 ? first : try await phone()
            _ = try await phone.pushStuck(60)
            gateway.clock.advance(seconds: 1)
            long.append(
                try await gateway.operation(#""kind":"retry","per_second":1,\#(Self.tasks)"#, in: phone.organization.id)
            )
        }
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let service = OperationService(
            store: gateway.store,
            retentionDays: 365,
            pollInterval: 0.05,
            turn: .zero,
            logger: logger
        )
        let running = Task { try await service.run() }
        try await waitUntil("all places are taken") { service.loop.places.count == OperationService.places }
        let other = try await phone()
        _ = try await other.pushStuck(1)
        gateway.clock.advance(seconds: 1)
        let short = try await gateway.operation(#""kind":"retry",\#(Self.tasks)"#, in: other.organization.id)
        // a long operation that releases its slot is due after the short operation
        gateway.clock.advance(seconds: 1)
        try await waitUntil("the short one has ended") {
            try await gateway.store.operations.operation(short.id, in: short.organization)?.endedAt != nil
        }
        var remaining = 0
        for operation in long {
            let row = try await gateway.store.operations.operation(operation.id, in: operation.organization)
            if row?.endedAt == nil { remaining += 1 }
        }
        #expect(remaining > 0, "the short operation did not wait for the long ones")
        running.cancel()
        try? await running.value
    }
}
