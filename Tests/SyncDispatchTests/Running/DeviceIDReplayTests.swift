import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// Device ids in requests to an upstream (specification 002, docs/spec): a device's 23 is sent as the server's id.
@Suite struct DeviceIDReplayTests {
    /// Folders, and tasks that are in a folder, have tags and may follow another task.
    private func harness(
        settings: String = "{}",
        upstream: FakeUpstream = FakeUpstream(),
        builtIn: Set<String> = [],
        isRunning: Bool = true
    ) async throws -> DispatcherHarness {
        let harness = try await DispatcherHarness(settings: settings, upstream: upstream, isRunning: isRunning)
        try await harness.declareTypes(builtIn: builtIn)
        return harness
    }

    /// Assigns string ids to created entities.
    private static let stringly = FakeUpstream { request, _ in
        guard request.method == "POST" else { return nil }
        return .status(201, #"{"id":"\#(request.path.dropFirst())-\#(request.text.utf8.count)"}"#)
    }

    /// Refuses folders named bad, and has a folder that conflicts with those named mine.
    private static var choosy: FakeUpstream {
        FakeUpstream { request, _ in
            if request.text.contains(#""bad""#) { return .status(422, #"{"error":"bad"}"#) }
            guard !request.isUnconditional, request.text.contains("mine") else { return nil }
            let location = request.method == "POST" ? request.path + "/7" : nil
            return .status(409, #"{"id":7,"name":"theirs"}"#, location: location)
        }
    }

    private let broccoli = #"{"text":"Broccoli","folderId":23}"#

    @Test func `the folder of a task is sent as the server's ID`() async throws {
        let harness = try await harness()
        let (folder, task) = (harness.create("folder", 23), harness.create("task", 47, broccoli))
        let change = harness.change("update", "task", 47, #"{"folderId":23,"n":23}"#)
        let answer = try await harness.phone.push([folder, task, change])
        #expect(answer.results.map(\.status) == ["pending", "blocked", "blocked"])
        try await harness.mutation(change.id, is: .succeeded)
        let requests = harness.upstream.requests
        #expect(requests.map(\.line) == ["POST /folders", "POST /tasks", "PATCH /tasks/2"])
        #expect(requests[1].text == #"{"text":"Broccoli","folderId":1}"#)
        #expect(requests[2].text == #"{"folderId":1,"n":23}"#)
        #expect(try await harness.leads("folder", 23) == "1 integer")
        #expect(try await harness.leads("task", 47) == "2 integer")
        let shown = try await harness.mutation(task.id)
        #expect(shown["local_id"]?.int64 == 47 && shown["server_id"]?.int64 == 2)
        let changes = try await harness.phone.pull(types: ["task"])
        #expect(changes.first?["client_id"]?.uuid == nil)
        let mappings = try await harness.read(
            "SELECT count(*) FROM id_mappings WHERE organization_id = '\(harness.organization.id)'"
        )
        #expect(try mappings.read(0, 0, as: Int64.self) == 0)
        // a resolved reference does not wait
        let next = harness.create("task", 48, #"{"folderId":23,"after":47}"#)
        #expect(try await harness.phone.push([next]).results[0].status == "pending")
        try await harness.mutation(next.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"folderId":1,"after":2}"#)
    }

    @Test func `sends lists, nulls and string IDs`() async throws {
        let harness = try await harness(upstream: Self.stringly)
        let tags = [harness.create("tag", 1, #"{"a":1}"#), harness.create("tag", -2, #"{"abc":1}"#)]
        let task = harness.create("task", .max, #"{"folderId":null,"tags":[-2,null,"given",1,1],"also":[1,-2]}"#)
        try await harness.phone.push(tags + [task])
        try await harness.mutation(task.id, is: .succeeded)
        let body = #"{"folderId":null,"tags":["tags-9",null,"given","tags-7","tags-7"],"also":[1,-2]}"#
        #expect(harness.upstream.requests.last?.text == body)
        #expect(try await harness.leads("tag", -2) == "tags-9 string")
    }

    /// Two devices of a user, another user, and a user of another organization each have a number 23.
    @Test func `a number means another entity on each device`() async throws {
        let harness = try await harness()
        let bob = harness.newPhone()
        let tablet = Phone(harness.gateway, harness.organization, user: harness.phone.user)
        let elsewhere = try await harness.newOrganization()
        try await harness.declareTypes(of: elsewhere.id)
        let eve = Phone(harness.gateway, elsewhere, user: harness.phone.user)
        for phone in [harness.phone, tablet, bob, eve] {
            let folder = harness.create("folder", 23, #"{"of":"\#(phone.device.lowercased)"}"#, by: phone)
            let task = harness.create("task", 23, #"{"folderId":23,"of":"\#(phone.device.lowercased)"}"#, by: phone)
            try await phone.push([folder, task])
            try await harness.until("\(phone.device) is done") {
                try await phone.gateway.store.mutations.mutation(
                    task.id,
                    organization: phone.organization,
                    user: phone.user,
                    wait: .zero
                )?.record.status == .succeeded
            }
        }
        var ids: Set<String> = []
        for phone in [harness.phone, tablet, bob, eve] {
            let id = try #require(try await harness.leads("folder", 23, on: phone))
            ids.insert(id)
            let task = harness.upstream.requests.last {
                $0.path == "/tasks" && $0.text.contains(phone.device.lowercased)
            }
            #expect(task?.text.contains(#""folderId":\#(id.dropLast(8)),"#) == true)
        }
        #expect(ids.count == 4)
    }

    @Test func `the stored document of a built-in type has server IDs`() async throws {
        let harness = try await harness(builtIn: ["task"])
        let folder = harness.create("folder", 23)
        let task = harness.create("task", 47, #"{"folderId":23,"after":47,"n":47}"#)
        let note = harness.create("note", 5, #"{"taskId":47}"#)
        #expect(
            try await harness.phone.push([folder, task, note]).results.map(\.status) == [
                "pending", "blocked", "blocked",
            ]
        )
        try await harness.mutation(note.id, is: .succeeded)
        let id = try #require(try await harness.mutation(task.id).serverID)
        #expect(try await harness.leads("task", 47) == "\(id) string")
        #expect(
            try await harness.phone.pull(types: ["task"]).first?["document"]?.text
                == #"{"folderId":1,"after":"\#(id)","n":47}"#
        )
        #expect(harness.upstream.requests.last?.text == #"{"taskId":"\#(id)"}"#)
    }

    @Test func `references to a failed create wait until a person settles it`() async throws {
        let harness = try await harness(settings: #"{"on_failure":"continue"}"#, upstream: Self.choosy)
        let folder = harness.create("folder", 23, #"{"name":"bad"}"#)
        let task = harness.create("task", 47, broccoli)
        try await harness.phone.push([folder, task])
        try await harness.mutation(folder.id, is: .failed)
        #expect(try await harness.mutation(task.id).status == "blocked")
        #expect(try await harness.leads("folder", 23) == "nowhere")
        // the number still belongs to the failed create
        let second = harness.create("folder", 23)
        #expect(try await harness.phone.push([second]).results[0].rules == ["unique_client_id_per_entity_type"])
        try await harness.retry(folder.id, #"{"payload":{"name":"good"}}"#)
        try await harness.mutation(task.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"text":"Broccoli","folderId":1}"#)
    }

    @Test func `an edit with other numbers is sent with their server IDs`() async throws {
        let harness = try await harness(settings: #"{"on_failure":"continue"}"#, upstream: Self.choosy)
        let folders = [harness.create("folder", 23), harness.create("folder", 24, #"{"name":"bad"}"#)]
        let task = harness.create("task", 47, #"{"text":"bad","folderId":23}"#)
        try await harness.phone.push(folders + [task])
        try await harness.mutation(task.id, is: .failed)
        try await harness.mutation(folders[1].id, is: .failed)
        await #expect(throws: Problem.self) { try await harness.retry(task.id, #"{"payload":{"folderId":25}}"#) }
        try await harness.retry(task.id, #"{"payload":{"text":"ok","folderId":24}}"#)
        #expect(try await harness.mutation(task.id).status == "blocked")
        try await harness.retry(folders[1].id, #"{"payload":{"name":"ok"}}"#)
        try await harness.mutation(task.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"text":"ok","folderId":2}"#)
    }

    @Test func `the number of a discarded create is free for another create`() async throws {
        let harness = try await harness(settings: #"{"on_failure":"continue"}"#, upstream: Self.choosy)
        let folder = harness.create("folder", 23, #"{"name":"bad"}"#)
        let task = harness.create("task", 47, broccoli)
        try await harness.phone.push([folder, task])
        try await harness.mutation(folder.id, is: .failed)
        try await harness.discard(folder.id, .keep)
        let kept = try await harness.mutation(task.id, is: .failed)
        #expect(kept.code == "dependency_rejected" && kept["error"]?["detail"]?.string?.contains("local id 23") == true)
        #expect(try await harness.leads("folder", 23) == nil)
        await #expect(throws: Problem.self) { try await harness.retry(task.id, "{}") }
        let another = harness.create("folder", 23, #"{"name":"good"}"#)
        try await harness.phone.push([another])
        try await harness.mutation(another.id, is: .succeeded)
        #expect(try await harness.leads("folder", 23) == "1 integer")
        try await harness.retry(task.id, "{}")
        try await harness.mutation(task.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"text":"Broccoli","folderId":1}"#)
        // a discard of the create includes its dependents
        let both = [harness.create("folder", 30, #"{"name":"bad"}"#), harness.create("task", 50, #"{"folderId":30}"#)]
        try await harness.phone.push(both)
        try await harness.mutation(both[0].id, is: .failed)
        try await harness.discard(both[0].id, .discard)
        #expect(try await harness.leads("folder", 30) == nil)
        #expect(try await harness.leads("task", 50) == nil)
    }

    @Test func `a lost worker's create is sent again, and its number resolves to the existing entity`() async throws {
        let harness = try await harness(isRunning: false)
        let (folder, task) = (harness.create("folder", 23), harness.create("task", 47, broccoli))
        try await harness.phone.push([folder, task])
        let lost = UUID()
        let first = try #require(await harness.step(.claim, by: lost).dispatch)
        #expect(try await harness.leads("folder", 23) == "nowhere")
        harness.gateway.clock.advance(seconds: 121)
        let worker = UUID()
        let again = try #require(await harness.step(.claim, by: worker).dispatch)
        #expect(again.mutation.id == folder.id && again.request?.idempotencyKey == first.request?.idempotencyKey)
        #expect(try await harness.settle(first, .status(201, #"{"id":8}"#), by: lost).isLost)
        #expect(try await harness.leads("folder", 23) == "nowhere")
        var turn = try await harness.settle(again, .status(201, #"{"id":9}"#), by: worker)
        while let unblocking = turn.unblocking {
            turn = try await harness.step(.proceed(token: again.token, unblocking: unblocking), by: worker)
        }
        #expect(try await harness.leads("folder", 23) == "9 integer")
        #expect(turn.dispatch?.request?.text == #"{"text":"Broccoli","folderId":9}"#)
    }

    // MARK: - Conflicts

    @Test(arguments: ["client_wins", "server_wins"])
    func `the number of a create in conflict with an entity resolves to that entity`(_ strategy: String) async throws {
        let harness = try await harness(upstream: Self.choosy)
        let folder = harness.create(
            "folder",
            23,
            #"{"name":"mine"}"#,
            extra: ["conflict_resolution": #""\#(strategy)""#]
        )
        let task = harness.create("task", 47, broccoli)
        try await harness.phone.push([folder, task])
        try await harness.mutation(task.id, is: .succeeded)
        #expect(try await harness.leads("folder", 23) == "7 integer")
        #expect(harness.upstream.requests.last?.text == #"{"text":"Broccoli","folderId":7}"#)
        #expect(try await harness.mutation(folder.id).resolution == strategy)
    }

    @Test(arguments: ["client_wins", "server_wins"])
    func `a person's resolution also resolves the number to the entity`(_ strategy: String) async throws {
        let harness = try await harness(upstream: Self.choosy)
        let folder = harness.create("folder", 23, #"{"name":"mine"}"#)
        let task = harness.create("task", 47, broccoli)
        try await harness.phone.push([folder, task])
        try await harness.mutation(folder.id, is: .conflict)
        try await harness.resolve(folder.id, #"{"strategy":"\#(strategy)"}"#)
        try await harness.mutation(task.id, is: .succeeded)
        #expect(try await harness.leads("folder", 23) == "7 integer")
        #expect(harness.upstream.requests.last?.text == #"{"text":"Broccoli","folderId":7}"#)
    }

    /// The device already has the entity as 50. After the conflict, both numbers reference the entity.
    @Test(arguments: [true, false])
    func `an entity with two numbers on a device is found by both`(_ isByAPerson: Bool) async throws {
        let harness = try await harness(upstream: Self.choosy)
        try await harness.give("folder", 50, "7")
        let folder = harness.create(
            "folder",
            23,
            #"{"name":"mine"}"#,
            extra: isByAPerson ? [:] : ["conflict_resolution": #""server_wins""#]
        )
        let task = harness.create("task", 47, broccoli)
        try await harness.phone.push([folder, task])
        if isByAPerson {
            try await harness.mutation(folder.id, is: .conflict)
            try await harness.resolve(folder.id, #"{"strategy":"server_wins"}"#)
        }
        try await harness.mutation(task.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"text":"Broccoli","folderId":7}"#)
        #expect(try await harness.leads("folder", 23) == "7 integer")
        #expect(try await harness.leads("folder", 50) == "7 integer")
        let first = try await harness.read(
            """
            SELECT local_id FROM local_ids WHERE organization_id = '\(harness.organization.id)' AND server_id = '7'
            """
        )
        #expect(first.count == 1)
        #expect(try first.read(0, 0, as: Int64.self) == 50)
        // the number is also found when only the create's mapping remains
        try await harness.execute("DELETE FROM mutations WHERE organization_id = '\(harness.organization.id)'")
        let later = harness.create("task", 48, #"{"text":"later","folderId":23}"#)
        #expect(try await harness.phone.push([later]).results[0].status == "pending")
        try await harness.mutation(later.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.text == #"{"text":"later","folderId":7}"#)
        let change = harness.change("update", "folder", 23, "{}")
        try await harness.phone.push([change])
        try await harness.mutation(change.id, is: .succeeded)
        #expect(harness.upstream.requests.last?.line == "PATCH /folders/7")
    }

    /// A pull confirms a number for the entity while the create's outcome is written.
    @Test func `a concurrent pull that assigns a number does not stop the lane`() async throws {
        let harness = try await harness(isRunning: false)
        try await harness.phone.push([harness.create("folder", 23)])
        let worker = UUID()
        let dispatch = try #require(await harness.step(.claim, by: worker).dispatch)
        let pull = try await harness.gateway.database.connect()
        try await pull.execute(script: "BEGIN; \(harness.giving("folder", 50, "9"))")
        async let turn = harness.settle(dispatch, .status(201, #"{"id":9}"#), by: worker)
        // there are no other waiters, so the lane's step waits for the pull
        try await harness.gateway.waitForLocks(1)
        try await pull.execute(script: "COMMIT")
        await pull.closeAndWait()
        #expect(try await turn.isReleased)
        #expect(try await harness.leads("folder", 23) == "9 integer")
        #expect(try await harness.leads("folder", 50) == "9 integer")
        #expect(try await harness.lane().openCount == 0)
    }
}

extension DispatcherHarness {
    func declareTypes(of organization: UUID? = nil, builtIn: Set<String> = []) async throws {
        let id = organization ?? self.organization.id
        let types = [
            ("folder", "{}"), ("tag", "{}"), ("task", #"{"folderId":"folder","tags":"tag","after":"task"}"#),
            ("note", #"{"taskId":"task"}"#),
        ]
        let rows = types.map { name, relations in
            "('\(id)', '\(name)', 'device', 'organization', 0, \(!builtIn.contains(name)), '\(relations)')"
        }
        try await execute(
            """
            INSERT INTO entity_types (organization_id, name, id_space, visibility, default_priority, is_forwarded, relations)
            VALUES \(rows.joined(separator: ","))
            """
        )
        gateway.store.catalog.invalidate(id)
    }

    func create(
        _ type: String,
        _ number: Int64,
        _ payload: String = #"{"name":"x"}"#,
        by phone: Phone? = nil,
        extra: [String: String] = [:]
    ) -> Entry {
        (phone ?? self.phone).entry(
            "create",
            type,
            payload: payload,
            extra: ["endpoint": #""/\#(type)s""#, "local_id": "\(number)"].merging(extra) { $1 }
        )
    }

    func change(_ operation: String, _ type: String, _ number: Int64, _ payload: String? = nil) -> Entry {
        phone.entry(
            operation,
            type,
            payload: payload,
            extra: ["endpoint": #""/\#(type)s/{local_id}""#, "local_id": "\(number)"]
        )
    }

    /// The target of a device's number: the server id and its kind, `nowhere` if it is unresolved; nil if the device
    /// has no such number.
    func leads(_ type: String, _ number: Int64, on other: Phone? = nil) async throws -> String? {
        let phone = other ?? phone
        let rows = try await read(
            """
            SELECT coalesce(coalesce(server_id, same_as) || CASE WHEN server_id_is_integer THEN ' integer' ELSE ' string' END,
                'nowhere')
            FROM local_ids
            WHERE organization_id = '\(phone.organization.id)' AND user_id = '\(phone.user)'
                AND device_id = '\(phone.device)' AND entity_type = '\(type)' AND local_id = \(number)
            """
        )
        return rows.count == 0 ? nil : try rows.read(0, 0, as: String.self)
    }

    /// The statement that gives the phone its number for an entity, as a pull does.
    func giving(_ type: String, _ number: Int64, _ id: String) -> String {
        """
        INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id, server_id_is_integer)
        VALUES ('\(organization.id)', '\(phone.user)', '\(phone.device)', '\(type)', \(number), '\(id)', true)
        """
    }

    func give(_ type: String, _ number: Int64, _ id: String) async throws {
        try await execute(giving(type, number, id))
    }

    func retry(_ id: UUID, _ body: String) async throws {
        let request = try RetryRequest(body: Array(body.utf8), limits: IntakeLimits())
        _ = try await gateway.store.settling.retry(id, request, organization: organization, user: phone.user)
    }

    func discard(_ id: UUID, _ dependants: DependantsChoice?) async throws {
        let request = DiscardRequest(dependants: dependants)
        _ = try await gateway.store.settling.discard(id, request, organization: organization, user: phone.user)
    }

    func resolve(_ id: UUID, _ body: String) async throws {
        let request = try ResolveRequest(body: Array(body.utf8), limits: IntakeLimits())
        _ = try await gateway.store.settling.resolve(id, request, organization: organization, user: phone.user)
    }
}
