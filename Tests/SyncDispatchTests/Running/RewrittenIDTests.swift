import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// A worker that replaced client ids or device numbers with server ids sends the same mutation, for every kind of ids
/// of the organization's API (product rule 5).
@Suite struct RewrittenIDTests {
    /// Assigns ids that are integers, strings, strings that have to be encoded, or UUIDs.
    enum Kind: String, CaseIterable {
        case integer, string, encoded, uuid

        var upstream: FakeUpstream {
            FakeUpstream { request, _ in
                guard request.method == "POST" else { return .status(200, "{}") }
                let name = request.path.split(separator: "/").last ?? ""
                return .status(201, #"{"id":\#(json(name.count))}"#)
            }
        }

        func json(_ number: Int) -> String {
            switch self {
            case .integer: "\(number)"
            case .string: #""n\#(number)""#
            case .encoded: #""a b:\#(number)""#
            case .uuid: #""00000000-0000-4000-8000-00000000000\#(number % 10)""#
            }
        }

        func path(_ number: Int) -> String {
            let text = json(number).trimmingCharacters(in: ["\""])
            return text.addingPercentEncoding(withAllowedCharacters: .alphanumerics.union(["-"])) ?? ""
        }
    }

    @Test(arguments: Kind.allCases)
    func `ids of every kind may be rewritten in every place`(_ kind: Kind) async throws {
        let harness = try await DispatcherHarness(upstream: kind.upstream)
        let (contact, activity) = (UUID(), UUID())
        let text = contact.lowercased
        let create = harness.create(local: contact)
        let second = harness.create(
            "activity",
            local: activity,
            payload: #"{"of":"\#(text)","all":["\#(text)",8,{"deep":"\#(text)"}],"count":8,"kind":"n8"}"#,
            extra: ["endpoint": #""/contacts/\#(text)/activities?of=\#(text)""#]
        )
        let update = harness.change("update", local: contact, payload: #"{"me":"\#(text)"}"#)
        let entries = [create, second, update]
        try await harness.phone.push(entries)
        for entry in entries { try await harness.mutation(entry.id, is: .succeeded) }
        let (id, path) = (kind.json(8), kind.path(8))
        var rewritten = entries
        rewritten[1].payload = #"{"all":[\#(id),8,{"deep":"\#(text)"}],"kind":"n8","of":\#(id),"count":8}"#
        rewritten[1].extra["endpoint"] = #""/contacts/\#(path)/activities?of=\#(text)""#
        rewritten[2].local = nil
        rewritten[2].server = id
        rewritten[2].payload = #"{"me":\#(id)}"#
        let answer = try await harness.phone.push(rewritten)
        #expect(answer.results.map(\.isReplayed) == [true, true, true])
        #expect(answer.results.map(\.status) == ["succeeded", "succeeded", "succeeded"])
        // repeats are also recognized in a preview, and twice in one push
        #expect(try await harness.preview(rewritten).results.map(\.isReplayed) == [true, true, true])
        #expect(try await harness.phone.push([entries[1], rewritten[1]]).results.map(\.isReplayed) == [true, true])
        let sent = harness.upstream.requests.count
        for payload in [
            #"{"all":[\#(id),9,{"deep":"\#(text)"}],"kind":"n8","of":\#(id),"count":8}"#,
            #"{"all":[\#(id),8,{"deep":\#(kind.json(9))}],"kind":"n8","of":\#(id),"count":8}"#,
            #"{"all":[\#(id),8,{"deep":"\#(text)"}],"kind":"n9","of":\#(id),"count":8}"#,
            #"{"all":[\#(id),8,{"deep":"\#(text)"}],"kind":"n8","of":\#(id),"count":\#(kind.json(9))}"#,
        ] {
            var other = rewritten[1]
            other.payload = payload
            #expect(try await harness.phone.push([other]).results[0].code == "idempotency_key_reused", "\(payload)")
        }
        var other = rewritten[1]
        other.extra["endpoint"] = #""/contacts/\#(kind.path(9))/activities?of=\#(text)""#
        #expect(try await harness.phone.push([other]).results[0].code == "idempotency_key_reused")
        #expect(harness.upstream.requests.count == sent)
    }

    /// The worker first has the server id, and references the entity by its client id later.
    @Test(arguments: Kind.allCases)
    func `a client ID may replace the server ID`(_ kind: Kind) async throws {
        let harness = try await DispatcherHarness(upstream: kind.upstream)
        let contact = UUID()
        let create = harness.create(local: contact)
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        let (id, path) = (kind.json(8), kind.path(8))
        var update = harness.change(
            "update",
            server: id,
            payload: #"{"me":\#(id),"n":8}"#,
            extra: ["endpoint": #""/contacts/\#(path)""#]
        )
        try await harness.phone.push([update])
        try await harness.mutation(update.id, is: .succeeded)
        update.server = nil
        update.local = contact
        update.payload = #"{"me":"\#(contact.lowercased)","n":8}"#
        update.extra["endpoint"] = #""/contacts/\#(contact.lowercased)""#
        #expect(try await harness.phone.push([update]).results[0].isReplayed == true)
        update.payload = #"{"me":"\#(contact.lowercased)","n":9}"#
        #expect(try await harness.phone.push([update]).results[0].code == "idempotency_key_reused")
    }

    @Test func `a mapping belongs to one user`() async throws {
        let harness = try await DispatcherHarness(upstream: Kind.integer.upstream)
        let contact = UUID()
        let create = harness.create(local: contact)
        let other = harness.newPhone()
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        // for another user this is a UUID like any other
        var note = other.entry(
            "create",
            "note",
            local: UUID(),
            payload: #"{"of":"\#(contact.lowercased)"}"#,
            extra: ["endpoint": #""/notes""#]
        )
        try await other.push([note])
        try await harness.mutation(note.id, of: other, is: .succeeded)
        note.payload = #"{"of":8}"#
        #expect(try await other.push([note]).results[0].code == "idempotency_key_reused")
    }

    /// A row stored by a gateway of the previous version.
    @Test func `rows without recorded places are compared as before`() async throws {
        let harness = try await DispatcherHarness(upstream: Kind.uuid.upstream)
        let contact = UUID()
        let create = harness.create(local: contact)
        var note = harness.create("note", payload: #"{"of":"\#(contact.lowercased)"}"#)
        try await harness.phone.push([create, note])
        try await harness.mutation(note.id, is: .succeeded)
        try await harness.execute("UPDATE mutations SET fingerprint_places = NULL")
        #expect(try await harness.phone.push([create, note]).results.map(\.isReplayed) == [true, true])
        note.payload = #"{"of":\#(Kind.uuid.json(8))}"#
        #expect(try await harness.phone.push([note]).results[0].isReplayed == true)
        note.payload = #"{"of":\#(Kind.uuid.json(9))}"#
        #expect(try await harness.phone.push([note]).results[0].code == "idempotency_key_reused")
    }

    // MARK: - Device ids

    @Test(arguments: [Kind.integer, .string, .uuid])
    func `a relation's number may be rewritten`(_ kind: Kind) async throws {
        let harness = try await DispatcherHarness(upstream: kind.upstream)
        try await harness.declareTypes()
        let folder = harness.create("folder", 23)
        var task = harness.create("task", 47, #"{"folderId":23,"n":23}"#)
        var change = harness.change("update", "task", 47, #"{"folderId":23}"#)
        try await harness.phone.push([folder, task, change])
        try await harness.mutation(change.id, is: .succeeded)
        task.payload = #"{"n":23,"folderId":\#(kind.json(7))}"#
        change.payload = #"{"folderId":\#(kind.json(7))}"#
        #expect(try await harness.phone.push([task, change]).results.map(\.isReplayed) == [true, true])
        change.extra["local_id"] = nil
        change.server = kind.json(5)
        #expect(try await harness.phone.push([change]).results[0].isReplayed == true)
        // both names are accepted if they refer to one entity
        change.extra["local_id"] = "47"
        #expect(try await harness.phone.push([change]).results[0].isReplayed == true)
        change.server = kind.json(7)
        #expect(try await harness.phone.push([change]).results[0].code == "idempotency_key_reused")
        // the same applies to a repeat from a new device id, because the number keeps its meaning
        let restored = Phone(harness.gateway, harness.organization, user: harness.phone.user)
        change.server = kind.json(5)
        #expect(try await restored.push([change]).results[0].isReplayed == true)
        change.server = kind.json(7)
        #expect(try await restored.push([change]).results[0].code == "idempotency_key_reused")
        var again = task
        again.payload = #"{"folderId":23,"n":23}"#
        #expect(try await restored.push([again, task]).results.map(\.isReplayed) == [true, true])
        for payload in [
            #"{"folderId":24,"n":23}"#, #"{"folderId":\#(kind.json(8)),"n":23}"#, #"{"folderId":23,"n":7}"#,
        ] {
            task.payload = payload
            #expect(try await harness.phone.push([task]).results[0].code == "idempotency_key_reused", "\(payload)")
        }
    }

    // MARK: - Types that share a client id

    /// The original failure: a mutation failed, another type reused the client id, and a person retried the mutation.
    @Test func `a reference keeps its type after a retry`() async throws {
        let upstream = FakeUpstream { request, _ in
            if request.text.contains(#""bad""#) { return .status(422, "{}") }
            return request.method == "POST" ? .status(201, #"{"id":"\#(request.path.dropFirst())-1"}"#) : nil
        }
        let harness = try await DispatcherHarness(settings: #"{"on_failure":"continue"}"#, upstream: upstream)
        let shared = UUID()
        let contact = harness.create("contact", local: shared)
        let activity = harness.create("activity", payload: #"{"of":"\#(shared.lowercased)","x":"bad"}"#)
        try await harness.phone.push([contact, activity])
        try await harness.mutation(activity.id, is: .failed)
        let account = harness.create("account", local: shared)
        try await harness.phone.push([account])
        try await harness.mutation(account.id, is: .succeeded)
        try await harness.retry(activity.id, "{}")
        try await harness.mutation(activity.id, becomes: "failed again") {
            $0.status == "failed" && $0["revision"]?.int64 == 2
        }
        #expect(harness.upstream.requests.last?.text == #"{"of":"contacts-1","x":"bad"}"#)
        // a row without the type is ambiguous
        try await harness.execute("UPDATE mutations SET reference_types = NULL")
        await #expect(throws: Problem.self) { try await harness.retry(activity.id, "{}") }
        try await harness.retry(activity.id, #"{"payload":{"of":"contacts-1"}}"#)
        try await harness.mutation(activity.id, is: .succeeded)
    }

    /// The creates of both types wait. That of the other type is resolved first.
    @Test func `a reference waits for its own type`() async throws {
        let upstream = FakeUpstream { request, _ in
            request.text.contains(#""bad""#)
                ? .status(422, "{}") : .status(201, #"{"id":"\#(request.path.dropFirst())-1"}"#)
        }
        let harness = try await DispatcherHarness(settings: #"{"on_failure":"continue"}"#, upstream: upstream)
        let shared = UUID()
        let contact = harness.create("contact", local: shared, payload: #"{"x":"bad"}"#)
        let activity = harness.create("activity", payload: #"{"of":"\#(shared.lowercased)"}"#)
        try await harness.phone.push([contact, activity])
        try await harness.mutation(contact.id, is: .failed)
        let account = harness.create("account", local: shared)
        try await harness.phone.push([account])
        try await harness.mutation(account.id, is: .succeeded)
        #expect(try await harness.mutation(activity.id).status == "blocked")
        try await harness.retry(contact.id, #"{"payload":{"x":"good"}}"#)
        try await harness.mutation(activity.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"of":"contacts-1"}"#)
    }

    /// Two types share a client id, and the create of one of them is discarded. A dependent of this create that
    /// references the entity of the other type does not need the create.
    @Test func `a discard does not affect references to another type`() async throws {
        let upstream = FakeUpstream { request, _ in
            request.text.contains(#""bad""#)
                ? .status(422, "{}") : .status(201, #"{"id":"\#(request.path.dropFirst())-1"}"#)
        }
        let harness = try await DispatcherHarness(settings: #"{"on_failure":"continue"}"#, upstream: upstream)
        let shared = UUID()
        let contact = harness.create("contact", local: shared)
        try await harness.phone.push([contact])
        try await harness.mutation(contact.id, is: .succeeded)
        let first = harness.create("other", payload: #"{"x":"bad"}"#)
        let activity = harness.create(
            "activity",
            payload: #"{"of":"\#(shared.lowercased)"}"#,
            extra: ["dependency_ids": #"["\#(first.id)"]"#]
        )
        let account = harness.create("account", local: shared, payload: #"{"x":"bad"}"#)
        try await harness.phone.push([first, activity])
        try await harness.phone.push([account])
        try await harness.mutation(account.id, is: .failed)
        try await harness.mutation(first.id, is: .failed)
        // makes the activity wait for the account's create as well
        try await harness.execute(
            """
            UPDATE mutations SET depends_on = ARRAY['\(account.id)'::uuid], blocked_on = '\(account.id)'
            WHERE id = '\(activity.id)'
            """
        )
        try await harness.discard(account.id, .keep)
        try await harness.mutation(activity.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"of":"contacts-1"}"#)
    }

    /// The entity belongs to another user, and only owners see entities of its type. Its validator is sent only for its
    /// owner.
    @Test func `does not send the validator of another user's entity`() async throws {
        let upstream = FakeUpstream { request, _ in
            request.method == "POST" ? .status(201, #"{"id":7}"#, etag: #""secret""#) : .status(200, #"{"id":7}"#)
        }
        let harness = try await DispatcherHarness(upstream: upstream)
        let create = harness.create()
        try await harness.phone.push([create])
        try await harness.mutation(create.id, is: .succeeded)
        let other = harness.newPhone()
        let update = other.entry(
            "update",
            "contact",
            server: "7",
            extra: ["endpoint": #""/contacts/7""#, "base_version": "1"]
        )
        try await other.push([update])
        try await harness.mutation(update.id, of: other, is: .succeeded)
        #expect(harness.upstream.requests.count == 2)
        #expect(harness.upstream.requests.allSatisfy { $0.ifMatch == nil })
    }
}

extension DispatcherHarness {
    func preview(_ entries: [Entry]) async throws -> JSONValue {
        let list = entries.map(\.json).joined(separator: ",")
        let body = #"{"device_id":"\#(phone.device.lowercased)","mutations":[\#(list)]}"#
        let answer = try await gateway.store.previews.preview(
            PushRequest(body: Array(body.utf8), limits: IntakeLimits()),
            organization: organization,
            user: phone.user,
            isStrict: false
        )
        return try JSONTree(parsing: answer.json()).root
    }
}
