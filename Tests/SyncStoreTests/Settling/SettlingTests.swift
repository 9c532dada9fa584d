import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import AdministrationFeature
@testable import SyncStore

@Suite struct SettlingTests {
    private static let movedWrongly = "status_transition_must_be_valid"

    // MARK: - Retry

    @Test func `a retry clears the results of earlier attempts and starts a new revision`() async throws {
        let phone = try await Phone.forwarding()
        let create = phone.forward("create", local: UUID())
        try await phone.push([create])
        try await phone.leave(
            create.id,
            "failed",
            """
            error = '{}', attempt_count = 3, last_error = 'x', last_error_code = 500, response_status = 422, response_body = '{}',
            next_retry_at = now(), conflict_retries = 2, sent_method = 'PUT', sent_endpoint = '/x', sent_payload = '{}'
            """
        )
        let result = try #require(try await phone.retry(create.id))
        #expect(result.status == "pending")
        #expect(result["revision"]?.int64 == 2)
        #expect(result["attempt_count"]?.int64 == 0)
        for member in ["error", "response", "last_error", "last_error_code", "next_retry_at", "resolution"] {
            #expect(result.value(at: "/" + member)?.isNull == true, "\(member)")
        }
        let columns = "concat(conflict_retries, sent_method, sent_endpoint, sent_payload, is_outcome_unknown)"
        #expect(try await phone.column(columns, of: create.id) == "0f")
        #expect(try await phone.disorder() == [])
        // a second retry: the mutation is pending already
        let again = try await refusal { try await phone.retry(create.id) }
        #expect(again?.summary == Self.movedWrongly)
        #expect(again?.detail.contains("pending") == true)
        // a repeat of the push still receives its answer
        #expect(try await phone.push([create]).results[0].isReplayed == true)
    }

    @Test func `an attempt of unknown outcome keeps its revision and is edited only with force`() async throws {
        let phone = try await Phone.forwarding()
        let create = phone.forward("create", local: UUID())
        try await phone.push([create])
        try await phone.leave(create.id, "failed", "error = '{}', is_outcome_unknown = true")
        let edit = #"{"payload":{"title":"y"}}"#
        let refused = try await refusal { try await phone.retry(create.id, edit) }
        #expect(refused?.summary == Self.movedWrongly)
        #expect(refused?.detail.contains("force") == true)
        #expect(try await phone.retry(create.id)?["revision"]?.int64 == 1)
        #expect(try await phone.column("is_outcome_unknown", of: create.id) == "true")

        try await phone.leave(create.id, "failed", "error = '{}', is_outcome_unknown = true")
        let forced = try #require(
            try await phone.retry(create.id, #"{"payload":{"title":"y"},"endpoint":"/b","force":true}"#)
        )
        #expect(forced["revision"]?.int64 == 2)
        #expect(forced["payload"]?.text == #"{"title":"y"}"#)
        #expect(forced["endpoint"]?.string == "/b")
        #expect(try await phone.column("is_outcome_unknown", of: create.id) == "false")
        // a repeat is recognized by the content of the first revision
        #expect(try await phone.push([create]).results[0].isReplayed == true)
    }

    @Test func `an edit is validated like a push`() async throws {
        let phone = try await Phone.new()
        let update = phone.entry("update", server: #""nobody""#)
        try await phone.push([update])
        #expect(try await phone.read(update.id).status == "failed")
        let cases = [
            (#"{"payload":[1]}"#, "validation_failed /payload payload_must_be_valid_json"),
            (#"{"payload":{"a":"\u0000"}}"#, "validation_failed /payload/a payload_must_be_valid_json"),
            (#"{"endpoint":"//x"}"#, "validation_failed /endpoint endpoint_must_be_relative_path"),
            (#"{"endpoint":1}"#, "validation_failed /endpoint endpoint_must_be_relative_path"),
            (#"{"force":1}"#, "invalid_request /force member_type"),
            (#"{"x":1}"#, "invalid_request /x member_unknown"),
            (#"{"payload":{},"payload":{}}"#, "invalid_request /payload member_duplicate"),
            (#"[]"#, "invalid_request  member_type"), ("{", "invalid_json"),
        ]
        for (body, summary) in cases {
            #expect(try await refusal { try await phone.retry(update.id, body) }?.summary == summary, "\(body)")
        }
        let long = #"{"payload":{"a":"\#(String(repeating: "x", count: 262_144))"}}"#
        #expect(
            try await refusal { try await phone.retry(update.id, long) }?.summary
                == "validation_failed /payload payload_must_be_valid_json"
        )
        #expect(try await phone.read(update.id).status == "failed")
        #expect(try await phone.retry(update.id, "")?.status == "pending")
    }

    @Test func `an edit that references an unresolved client id waits for its create`() async throws {
        let phone = try await Phone.forwarding()
        let (first, second) = (UUID(), UUID())
        let task = phone.forward("create", local: first)
        let contact = phone.forward("create", "contact", local: second)
        try await phone.push([task, contact])
        try await phone.leave(task.id, "failed")
        let body = #"{"payload":{"contact":"\#(second.lowercased)","self":"\#(first.lowercased)","x":"\#(UUID())"}}"#
        let result = try #require(try await phone.retry(task.id, body))
        #expect(result.status == "blocked")
        #expect(result.blockedBy == [contact.id])
        #expect(try await phone.column("reference_ids", of: task.id) == "{\(second.lowercased)}")
        #expect(try await phone.disorder() == [])
    }

    @Test func `refuses an edit that would wait for itself`() async throws {
        let phone = try await Phone.forwarding()
        let later = UUID()
        let task = phone.forward("create", local: UUID())
        let contact = phone.forward("create", "contact", local: later, needs: [task.id])
        try await phone.push([task, contact])
        try await phone.leave(task.id, "failed")
        let body = #"{"payload":{"contact":"\#(later.lowercased)"}}"#
        #expect(
            try await refusal { try await phone.retry(task.id, body) }?.summary
                == "validation_failed /payload dependency_ids_must_exist_in_queue"
        )
    }

    @Test func `a failed mapping is pending again with its create`() async throws {
        let phone = try await Phone.forwarding()
        let local = UUID()
        let create = phone.forward("create", local: local)
        try await phone.push([create])
        try await phone.leave(create.id, "failed")
        try await phone.execute(
            "UPDATE id_mappings SET status = 'failed', retry_count = 11, last_error = 'x' WHERE \(phone.owner)"
        )
        _ = try await phone.retry(create.id)
        #expect(try await phone.mapping(local) == "pending")
        #expect(try await phone.gateway.read("SELECT retry_count FROM id_mappings").read(0, 0, as: Int16.self) == 0)
    }

    // MARK: - Discard

    @Test func `a discard requires a choice for dependants`() async throws {
        let phone = try await Phone.forwarding()
        let local = UUID()
        let create = phone.forward("create", local: local)
        let chain = (0..<3).map { _ in phone.forward("update", local: local) }
        try await phone.push([create] + chain)
        let refused = try await refusal { try await phone.discard(create.id) }
        #expect(refused?.summary == "validation_failed /dependents member_required")
        #expect(refused?.detail.contains("3 mutations") == true)
        #expect(try await phone.statuses([create] + chain) == ["pending", "blocked", "blocked", "blocked"])

        let result = try #require(try await phone.discard(create.id, .discard))
        #expect(result.status == "discarded")
        #expect(result["synced_at"]?.isNull == false)
        #expect(result.discardedIDs == ([create] + chain).map(\.id))
        #expect(try await phone.statuses(chain) == ["discarded", "discarded", "discarded"])
        #expect(try await phone.mapping(local) == "failed its create was discarded")
        #expect(try await phone.disorder() == [])
        let again = try await refusal { try await phone.discard(create.id) }
        #expect(again?.summary == Self.movedWrongly)
    }

    @Test func `a kept dependant fails only if it needs the client id`() async throws {
        let phone = try await Phone.forwarding()
        let local = UUID()
        let create = phone.forward("create", "contact", local: local)
        let update = phone.forward("update", "contact", local: local)
        let reference = phone.forward("create", local: UUID(), payload: #"{"contact":"\#(local.uuidString)"}"#)
        let ordered = phone.forward("create", "note", local: UUID(), needs: [create.id])
        let behind = phone.forward("create", "note", local: UUID(), needs: [reference.id])
        try await phone.push([create, update, reference, ordered, behind])
        try await phone.leave(create.id, "failed")
        let result = try #require(try await phone.discard(create.id, .keep))
        #expect(result.discardedIDs == [create.id])
        #expect(
            try await phone.statuses([update, reference, ordered, behind]) == [
                "failed", "failed", "pending", "blocked",
            ]
        )
        let failed = try await phone.read(reference.id)
        #expect(failed.code == "dependency_rejected")
        #expect(failed["last_error_code"]?.int64 == 424)
        #expect(failed["last_error"]?.string?.contains(local.lowercased) == true)
        #expect(try await phone.disorder() == [])
        // a retry without a change is refused; a retry without the id is accepted
        let vain = try await refusal { try await phone.retry(reference.id) }
        #expect(vain?.summary == "validation_failed  dependency_ids_must_exist_in_queue")
        #expect(try await phone.retry(reference.id, #"{"payload":{}}"#)?.status == "pending")
        #expect(try await phone.disorder() == [])
    }

    @Test func `a kept dependant still waits for earlier writes of its entity`() async throws {
        let phone = try await Phone.forwarding()
        let writes = (0..<3).map { _ in phone.forward("update", server: "7") }
        let other = phone.forward("create", "note", local: UUID(), needs: [writes[1].id])
        try await phone.push(writes + [other])
        try await phone.leave(writes[0].id, "failed")
        _ = try await phone.discard(writes[1].id, .keep)
        #expect(try await phone.read(writes[2].id).blockedBy == [writes[0].id])
        #expect(try await phone.statuses([other]) == ["pending"])
        #expect(try await phone.disorder() == [])
    }

    @Test func `a discard changes neither mutations in flight nor final ones`() async throws {
        let phone = try await Phone.forwarding()
        let (sent, done) = (phone.forward("update", server: "1"), phone.forward("update", server: "2"))
        try await phone.push([sent, done])
        try await phone.leave(sent.id, "in_flight", "attempt_count = 1")
        try await phone.leave(done.id, "succeeded", "error = NULL")
        for id in [sent.id, done.id] {
            #expect(try await refusal { try await phone.discard(id) }?.summary == Self.movedWrongly)
            #expect(try await refusal { try await phone.retry(id) }?.summary == Self.movedWrongly)
            for strategy in ["server_wins", "client_wins"] {
                #expect(try await refusal { try await phone.resolve(id, strategy) }?.summary == Self.movedWrongly)
            }
        }
        #expect(try await phone.disorder() == [])
        let stranger = Phone(phone.gateway, phone.organization)
        #expect(try await stranger.retry(sent.id) == nil)
        #expect(try await stranger.resolve(sent.id, "server_wins") == nil)
        #expect(try await stranger.discard(sent.id) == nil)
        try await stranger.push([stranger.forward("update", server: "3")])
        #expect(try await stranger.retry(done.id) == nil)
        #expect(try await refusal { try await stranger.discard(done.id) }?.summary == "not_found")
    }

    @Test func `a discarded create's client id may be created again`() async throws {
        let phone = try await Phone.forwarding()
        let local = UUID()
        let first = phone.forward("create", "contact", local: local)
        try await phone.push([first])
        #expect(
            try await phone.push([phone.forward("create", "contact", local: local)]).results[0].status == "rejected"
        )
        _ = try await phone.discard(first.id)

        let early = try await phone.push([
            phone.forward("create", local: UUID(), payload: #"{"c":"\#(local.lowercased)"}"#),
            phone.forward("update", "contact", local: local),
        ])
        #expect(early.results.map(\.code) == ["dependency_rejected", "dependency_rejected"])
        let second = phone.forward("create", "contact", local: local)
        let user = phone.forward("create", local: UUID(), payload: #"{"c":"\#(local.lowercased)"}"#)
        let answer = try await phone.push([second, user])
        #expect(answer.results.map(\.status) == ["pending", "blocked"])
        #expect(answer.results[1].blockedBy == [second.id])
        #expect(try await phone.mapping(local) == "pending")
        #expect(try await phone.disorder() == [])
        #expect(
            try await phone.push([phone.forward("create", "contact", local: local)]).results[0].status == "rejected"
        )
    }

    // MARK: - Resolve

    /// A conflict of built-in documents, and the mutations that wait for it.
    private func builtIn() async throws -> (phone: Phone, id: String, conflict: Entry, dependant: Entry, other: Entry) {
        let phone = try await Phone.new()
        let id = try #require(try await phone.push([phone.create(payload: #"{"n":1}"#)]).results[0].serverID)
        let bob = Phone(phone.gateway, phone.organization)
        try await bob.push([bob.entry("update", server: #""\#(id)""#, payload: #"{"bob":1}"#)])
        var conflict = phone.entry("update", server: #""\#(id)""#, payload: #"{"x":1}"#)
        conflict.extra["base_version"] = "1"
        let dependant = phone.entry("update", server: #""\#(id)""#, payload: #"{"y":1}"#)
        let other = phone.create()
        let answer = try await phone.push([conflict, dependant, other])
        #expect(answer.results.map(\.status) == ["conflict", "blocked", "pending"])
        return (phone, id, conflict, dependant, other)
    }

    @Test func `server_wins discards the mutation and releases the others`() async throws {
        let fixture = try await builtIn()
        let result = try #require(try await fixture.phone.resolve(fixture.conflict.id, "server_wins"))
        #expect(result.status == "discarded")
        #expect(result["resolution"]?.string == "server_wins")
        #expect(result.version == 2)
        #expect(result["error"]?["current"]?["document"]?.text == #"{"n":1,"bob":1}"#)
        #expect(try await fixture.phone.statuses([fixture.dependant, fixture.other]) == ["pending", "pending"])
        #expect(try await fixture.phone.disorder() == [])
        let lane = try await fixture.phone.gateway.read(
            "SELECT halted_by, ready_at IS NOT NULL FROM lanes WHERE \(fixture.phone.owner)"
        )
        #expect(try lane.read(0, 0, as: UUID?.self) == nil)
        #expect(try lane.read(0, 1, as: Bool.self))
    }

    @Test func `client_wins runs the mutation again and keeps the conflict`() async throws {
        let fixture = try await builtIn()
        let result = try #require(
            try await fixture.phone.resolve(fixture.conflict.id, "client_wins", payload: #"{"z":1}"#)
        )
        #expect(result.status == "pending")
        #expect(result["resolution"]?.string == "client_wins")
        #expect(result["revision"]?.int64 == 2)
        #expect(result.code == "conflict")
        #expect(result["payload"]?.text == #"{"z":1}"#)
        #expect(result["last_error"]?.isNull == true)
        #expect(try await fixture.phone.statuses([fixture.dependant, fixture.other]) == ["blocked", "pending"])
        #expect(try await fixture.phone.disorder() == [])
        #expect(
            try await refusal { try await fixture.phone.resolve(fixture.conflict.id, "client_wins") }?.summary
                == Self.movedWrongly
        )
    }

    @Test func `refuses a payload with server_wins`() async throws {
        let fixture = try await builtIn()
        #expect(
            try await refusal { try await fixture.phone.resolve(fixture.conflict.id, "server_wins", payload: "{}") }?
                .summary
                == "validation_failed /payload member_unknown"
        )
        #expect(
            try await refusal { try await fixture.phone.resolve(fixture.conflict.id, "manual") }?.summary
                == "invalid_request /strategy member_type"
        )
    }

    @Test func `a create of a shared id stays manual`() async throws {
        let alice = try await Phone.new(#"{"on_conflict":"continue"}"#)
        let type = Array(#"{"id_space":"shared"}"#.utf8)
        _ = try await alice.gateway.store.administration.putEntityType(
            "country",
            in: alice.organization.id,
            EntityTypeUpdate(body: type)
        )
        let bob = Phone(alice.gateway, alice.organization)
        try await alice.push([alice.entry("create", "country", server: "47")])
        let create = bob.entry("create", "country", server: "47")
        try await bob.push([create])
        #expect(try await refusal { try await bob.resolve(create.id, "client_wins") }?.summary == Self.movedWrongly)
        #expect(try await bob.resolve(create.id, "server_wins")?.status == "discarded")
        #expect(try await bob.disorder() == [])
    }

    @Test func `an adopted create resolves its mapping and enters the feed`() async throws {
        let phone = try await Phone.forwarding()
        let local = UUID()
        let create = phone.forward("create", "contact", local: local)
        let update = phone.forward("update", "contact", local: local)
        let reference = phone.forward("create", local: UUID(), payload: #"{"c":"\#(local.lowercased)"}"#)
        try await phone.push([create, update, reference])
        try await phone.conflict(create.id, current: nil)
        let nameless = try await refusal { try await phone.resolve(create.id, "server_wins") }
        #expect(nameless?.summary == Self.movedWrongly)
        #expect(nameless?.detail.contains("retry or discard") == true)

        try await phone.execute(
            """
            UPDATE mutations SET response_body = '{"id":42}',
                error = '{"code":"conflict","current":{"id":42,"deleted":false,"document":{"name":"Kari"}}}'
            WHERE \(phone.owner) AND status = 'conflict'
            """
        )
        let result = try #require(try await phone.resolve(create.id, "server_wins"))
        #expect(result["server_id"]?.int64 == 42)
        #expect(result.version == 1)
        #expect(try await phone.mapping(local) == "resolved 42")
        #expect(try await phone.statuses([update, reference]) == ["pending", "pending"])
        let feed = try await phone.pull()
        #expect(feed.map(\.text).count == 1)
        #expect(feed.first?["id"]?.int64 == 42)
        #expect(feed.first?["client_id"]?.uuid == local)
        #expect(feed.first?["document"]?.text == #"{"name":"Kari"}"#)
        #expect(try await phone.disorder() == [])
    }

    @Test func `an adopted document replaces the feed's document`() async throws {
        let phone = try await Phone.forwarding()
        let update = phone.forward("update", server: #""a""#)
        let second = phone.forward("update", server: #""b""#)
        try await phone.push([update, second])
        let ids = (phone.organization.id.lowercased, phone.user.lowercased, UUID().lowercased)
        try await phone.execute(
            """
            INSERT INTO entities (organization_id, entity_type, id, version, document, feed_position, owner_id,
                updated_by, updated_on, run_base, created_at, updated_at)
            VALUES ('\(ids.0)', 'task', 'a', 3, '{"old":1}', 1, '\(ids.1)', '\(ids.1)', '\(ids.2)', 2, '2026-11-01', '2026-11-01'),
                ('\(ids.0)', 'task', 'b', 3, '{"old":1}', 2, '\(ids.2)', '\(ids.2)', '\(ids.2)', 2, '2026-11-01', '2026-11-01');
            UPDATE feeds SET last_position = 2 WHERE organization_id = '\(ids.0)'
            """
        )
        try await phone.conflict(update.id, current: #"{"id":"a","deleted":false,"document":{"new":1}}"#)
        try await phone.conflict(second.id, current: #"{"id":"b","deleted":false,"document":{"new":1}}"#)
        #expect(try await phone.resolve(update.id, "server_wins")?.version == 4)
        // this user cannot change another user's entity of a private type
        _ = try await phone.resolve(second.id, "server_wins")
        let documents = try await phone.gateway.read("SELECT document::text, feed_position FROM entities ORDER BY id")
        #expect(try documents.read(0, 0, as: String.self) == #"{"new":1}"#)
        #expect(try documents.read(0, 1, as: Int64.self) == 3)
        #expect(try documents.read(1, 0, as: String.self) == #"{"old":1}"#)
        #expect(try await phone.disorder() == [])
    }

    @Test func `client_wins sends a method that it chooses`() async throws {
        let phone = try await Phone.forwarding()
        let local = UUID()
        let create = phone.forward("create", local: local)
        let known = phone.forward("update", server: #""a""#, payload: #"{"n":null,"x":1}"#)
        let unknown = phone.forward("update", server: #""b""#)
        let replace = phone.forward("replace", server: #""c""#)
        let delete = phone.forward("delete", server: #""d""#)
        try await phone.push([create, known, unknown, replace, delete])
        try await phone.conflict(create.id, current: nil, existing: #""a/b""#)
        try await phone.conflict(known.id, current: #"{"id":"a","document":{"n":1,"o":2}}"#)
        for entry in [unknown, replace, delete] { try await phone.conflict(entry.id, current: nil) }
        var sent: [String] = []
        for entry in [create, known, unknown, replace, delete] {
            #expect(try await phone.resolve(entry.id, "client_wins")?.status == "pending")
            let columns = "concat_ws(' ', sent_method, sent_endpoint, sent_payload)"
            sent.append(try await phone.column(columns, of: entry.id) ?? "-")
        }
        #expect(sent == ["PUT /api/tasks/a%2Fb", #"PUT {"o":2,"x":1}"#, "PATCH", "PUT", "DELETE"])
        #expect(try await phone.disorder() == [])
    }

    // MARK: - Lanes

    @Test func `settling notifies waiting readers and workers`() async throws {
        let phone = try await Phone.forwarding()
        let update = phone.forward("update", server: "1")
        try await phone.push([update])
        try await phone.leave(update.id, "failed")
        let ready = Flag()
        phone.gateway.store.notifier.whenReady { _ in ready.raise() }
        _ = try await phone.retry(update.id)
        #expect(ready.isRaised)
        // a worker that has the lane's lease polls the lane without a hint
        try await phone.leave(update.id, "failed")
        try await phone.execute(
            """
            UPDATE lanes SET lease_owner = '\(UUID().lowercased)', ready_at = '2100-01-01' WHERE \(phone.owner)
            """
        )
        let silent = Flag()
        phone.gateway.store.notifier.whenReady { _ in silent.raise() }
        _ = try await phone.retry(update.id)
        #expect(!silent.isRaised)
        let lane = try await phone.gateway.read("SELECT ready_at = '2100-01-01' FROM lanes WHERE \(phone.owner)")
        #expect(try lane.read(0, 0, as: Bool.self))
    }

    @Test func `discards a chain of dependants as long as the lane`() async throws {
        let count = Int(ProcessInfo.processInfo.environment["SLUICE_TEST_CHAIN"] ?? "") ?? 2_000
        let phone = try await Phone.forwarding()
        let first = phone.forward("update", server: "0")
        try await phone.push([first])
        try await phone.execute(
            """
            INSERT INTO mutations
            SELECT (jsonb_populate_record(m, jsonb_build_object(
                'id', md5('m' || n)::uuid, 'idempotency_key', md5('k' || n)::uuid, 'sequence_number', n + 1,
                'position', n + 1, 'status', 'blocked', 'server_id', '0',
                'depends_on', ARRAY[CASE WHEN n = 1 THEN m.id ELSE md5('m' || n - 1)::uuid END],
                'blocked_on', CASE WHEN n = 1 THEN m.id ELSE md5('m' || n - 1)::uuid END))).*
            FROM mutations m, generate_series(1, \(count)) n WHERE \(phone.owner);
            UPDATE lanes SET open_count = \(count + 1), next_position = \(count + 2) WHERE \(phone.owner);
            ANALYZE mutations
            """
        )
        let started = ContinuousClock.now
        let result = try #require(try await phone.discard(first.id, .discard))
        let took = ContinuousClock.now - started
        #expect(result.discardedIDs.count == count + 1)
        #expect(result.discardedIDs.first == first.id)
        let lane = try await phone.gateway.read("SELECT open_count + queued_count FROM lanes WHERE \(phone.owner)")
        #expect(try lane.read(0, 0, as: Int64.self) == 0)
        if count > 6_000 { print("a chain of \(count): \(took)") }
    }

    // MARK: - Bulk

    private func bulk(_ body: String, _ move: BulkRequest.Move) throws -> BulkRequest {
        try BulkRequest(body: Array(body.utf8), limit: 65_536, for: move)
    }

    @Test func `operators settle mutations of all users`() async throws {
        let alice = try await Phone.forwarding()
        let bob = Phone(alice.gateway, alice.organization)
        let settling = alice.gateway.store.settling
        var failed: [UUID] = []
        for phone in [alice, bob] {
            let entries = (0..<4).map { phone.forward("update", $0 < 2 ? "task" : "note", server: "\($0)") }
            let dependant = phone.forward("update", "task", server: "0")
            try await phone.push(entries + [dependant])
            for entry in entries { try await phone.leave(entry.id, "failed") }
            failed += entries.map(\.id)
        }
        let one = try await settling.retry(
            try bulk(#"{"filter":{"user_id":"\#(bob.user.lowercased)","entity_type":"note"}}"#, .retry),
            organization: alice.organization
        )
        #expect(one.text == "2 matched, 2 settled")
        let byID = try await settling.retry(
            try bulk(#"{"ids":["\#(failed[0].lowercased)","\#(UUID().lowercased)"]}"#, .retry),
            organization: alice.organization
        )
        #expect(byID.text == "1 matched, 1 settled")
        // a mutation with dependants stays unless the request specifies how to treat them
        let unsaid = try await settling.discard(
            try bulk(#"{"filter":{"status":["failed"]}}"#, .discard),
            organization: alice.organization
        )
        #expect(unsaid.text == "5 matched, 4 settled")
        #expect(try await alice.disorder() == [])
        let said = try await settling.discard(
            try bulk(#"{"filter":{},"dependents":"discard"}"#, .discard),
            organization: alice.organization
        )
        #expect(said.text == "1 matched, 2 settled")
        #expect(try await alice.disorder() == [])
        let stranger = try await alice.gateway.organization()
        let none = try await settling.discard(
            try bulk(#"{"ids":["\#(failed[0].lowercased)"],"dependents":"discard"}"#, .discard),
            organization: stranger
        )
        #expect(none.text == "0 matched, 0 settled")
    }

    @Test func `a bulk call processes more than a page`() async throws {
        let phone = try await Phone.forwarding()
        let entries = (0..<620).map { phone.forward("update", server: "\($0)") }
        try await phone.push(Array(entries[..<400]))
        try await phone.push(Array(entries[400...]))
        try await phone.execute(
            """
            UPDATE mutations SET status = 'failed', error = '{}' WHERE \(phone.owner);
            UPDATE lanes SET queued_count = 0 WHERE \(phone.owner)
            """
        )
        let settling = phone.gateway.store.settling
        let retried = try await settling.retry(try bulk(#"{"filter":{}}"#, .retry), organization: phone.organization)
        #expect(retried.text == "620 matched, 620 settled")
        #expect(try await phone.disorder() == [])
        let request = try bulk(#"{"filter":{"status":"pending"},"dependents":"keep"}"#, .discard)
        let discarded = try await settling.discard(request, organization: phone.organization)
        #expect(discarded.text == "620 matched, 620 settled")
        #expect(try await phone.disorder() == [])
    }
}
