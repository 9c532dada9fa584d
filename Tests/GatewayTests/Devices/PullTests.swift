import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// `POST /v1/devices/{device_id}/pull`
@Suite struct PullTests {
    private static func scene(_ types: String...) async throws -> TwoTenantFixture {
        let scene = try await TwoTenantFixture()
        for type in types { try await scene.type(type) }
        return scene
    }

    @Test func `a page has the members of the contract and the device's own ids`() async throws {
        let scene = try await Self.scene("task")
        try await scene.write("task", "s1", #"{"a" : 1.0}"#)
        _ = try await scene.ada.push([scene.ada.create("note")])
        let phone = PullingDevice(scene.ada)
        let reply = try await phone.ask()
        #expect(reply.status == 200)
        #expect(reply.json?.names == ["changes", "next", "up_to_date", "next_local_ids"])
        let names = [
            "entity_type", "id", "local_id", "version", "etag", "deleted", "document", "updated_at", "updated_by",
        ]
        let change = try #require(reply.changes.first)
        #expect(change.names == names)
        #expect(change["local_id"]?.text == "1")
        #expect(change["document"]?.text == #"{"a" : 1.0}"#)
        #expect(reply.changes.last?.names == names.map { $0 == "local_id" ? "client_id" : $0 }, "a mapped type's own")
        #expect(reply.isUpToDate == true)
        #expect(reply.counters == #"{"task":2}"#)
        // as in /v1/changes, except for the device's own ids
        let plain = try await scene.ada.get("/v1/changes").changes
        #expect(plain.map { $0["id"]?.text } == reply.changes.map { $0["id"]?.text })
        #expect(plain[0].names == names.filter { $0 != "local_id" })
        // a device with numbers is registered
        let devices = "SELECT accepted_sequence::text FROM devices WHERE device_id = '\(phone.device)'"
        #expect(try await scene.lines(devices) == ["0"])
    }

    /// Seed 002: two devices and two tasks. Task 47 in folder 23 on one device is task 81 in folder 104 on the other.
    @Test func `each device has its own ids for the same graph`() async throws {
        let scene = try await Self.scene("folder")
        try await scene.type("task", #"{"id_space":"device","relations":{"folderId":"folder"}}"#)
        let device1 = PullingDevice(scene.ada, counters: #"{"task":47,"folder":23}"#)
        let device2 = PullingDevice(scene.ada, counters: #"{"task":81,"folder":104}"#)
        try await scene.write("folder", "F")
        try await scene.write("task", "T", #"{"folderId":"F","n":"F"}"#)
        let (first, second) = (try await device1.pull(), try await device2.pull())
        #expect(first.numbered == ["F=23", "T=47"])
        #expect(second.numbered == ["F=104", "T=81"])
        #expect(first.documents[1] == #"{"folderId":23,"n":"F"}"#, "no relation, no translation")
        #expect(second.documents[1] == #"{"folderId":104,"n":"F"}"#)
        #expect(second.counters == #"{"folder":105,"task":82}"#)
        // one device's change is translated to the other's id
        try await scene.write("task", "T", #"{"folderId":null}"#)
        #expect(try await device1.pull().numbered == ["T=47"])
        #expect(try await device2.pull().numbered == ["T=81"])
    }

    private static func related(_ name: String, _ count: Int) -> String {
        #"{"fs":["# + (0..<count).map { #""\#(name)\#($0)""# }.joined(separator: ",") + "]}"
    }

    @Test func `a page ends at ten thousand new ids, and more are confirmed in parts`() async throws {
        let scene = try await Self.scene("folder")
        try await scene.type("task", #"{"id_space":"device","relations":{"fs":"folder"}}"#)
        for task in ["a", "b", "c"] { try await scene.write("task", task, Self.related(task, 6_000)) }
        // stored before ingested documents were limited
        try await scene.write("task", "d", Self.related("d", 30_000))
        let phone = PullingDevice(scene.ada)
        let first = try await phone.pull()
        #expect(first.numbered == ["a=1", "b=2"])
        #expect(first.isUpToDate == false)
        #expect(first.counters == #"{"folder":12001,"task":3}"#)
        let second = try await phone.pull()
        #expect(second.numbered == ["c=3", "d=4"], "\(second.numbered)")
        let end = try await phone.pull()
        #expect(end.changes.isEmpty && end.isUpToDate == true)
        let numbers = try await scene.numbers(of: phone).count
        #expect(numbers == 48_004, "\(numbers)")
        #expect(end.counters == #"{"folder":48001,"task":5}"# || phone.counters != nil)
    }

    @Test func `an assignment is provisional until the device's next pull`() async throws {
        let scene = try await Self.scene("task")
        for id in ["a", "b", "c"] { try await scene.write("task", id) }
        let phone = PullingDevice(scene.ada)
        // the response is lost twice: it is created again with the device's current counters
        #expect(try await phone.ask(limit: 2).numbered == ["a=1", "b=2"])
        #expect(try await phone.ask(limit: 2).numbered == ["a=1", "b=2"])
        #expect(try await phone.ask(limit: 2, counters: #"{"task":10}"#).numbered == ["a=10", "b=11"])
        #expect(try await scene.numbers(of: phone) == [])
        #expect(try await scene.pages(of: phone) == ["1 2", "2 2"], "the same page is kept once")
        phone.counters = #"{"task":5}"#
        #expect(try await phone.pull(limit: 2).numbered == ["a=5", "b=6"])
        #expect(phone.counters == #"{"task":7}"#)
        let cursor = try #require(phone.cursor)
        #expect(try await phone.pull(limit: 2).numbered == ["c=7"])
        #expect(try await scene.numbers(of: phone) == ["task 5 a", "task 6 b"])
        #expect(try await scene.pages(of: phone) == ["3", "4 1"], "the others are deleted")
        // pulled again from the same cursor: confirmed numbers stay, the others are assigned again
        #expect(try await phone.ask(cursor, counters: #"{"task":70}"#).numbered == ["c=70"])
        #expect(try await phone.ask(counters: #"{"task":70}"#).numbered == ["a=5", "b=6", "c=70"])
        let end = try await phone.pull()
        #expect(end.changes.isEmpty)
        #expect(end.next == phone.cursor)
        #expect(try await scene.numbers(of: phone) == ["task 5 a", "task 6 b", "task 7 c"])
        // without changes: nothing is written, and the cursor stays
        let tables = try await scene.tables()
        #expect(try await phone.pull().next == end.next)
        try await scene.write("task", "a", #"{"n":2}"#)
        #expect(try await phone.pull().numbered == ["a=5"])
        #expect(try await scene.tables()["local_id_pages"] == tables["local_id_pages"])
        #expect(try await scene.tables()["local_ids"] == tables["local_ids"])
    }

    @Test func `a late duplicate of an older pull does not change confirmed numbers`() async throws {
        let scene = try await Self.scene("task")
        try await scene.write("task", "a")
        let phone = PullingDevice(scene.ada)
        _ = try await phone.pull()
        let first = try #require(phone.cursor)
        try await scene.write("task", "b")
        #expect(try await phone.pull().numbered == ["b=2"])
        // both pulls arrive again, and their responses are lost
        #expect(try await phone.ask(counters: "{}").numbered == ["a=1", "b=2"])
        #expect(try await phone.ask(first, counters: #"{"task":2}"#).numbered == ["b=2"])
        try await scene.write("task", "c")
        #expect(try await phone.pull().numbered == ["c=3"])
        #expect(try await scene.numbers(of: phone) == ["task 1 a", "task 2 b"])
        #expect(try await phone.ask(first, counters: #"{"task":2}"#).numbered == ["b=2", "c=3"])
        _ = try await phone.pull()
        #expect(try await scene.numbers(of: phone) == ["task 1 a", "task 2 b", "task 3 c"])
    }

    @Test func `the oldest of too many lost responses cannot be confirmed`() async throws {
        let scene = try await Self.scene("task")
        try await scene.write("task", "a")
        let phone = PullingDevice(scene.ada)
        let lost = try await phone.ask(counters: #"{"task":1}"#)
        for number in 2...9 { _ = try await phone.ask(counters: #"{"task":\#(number)}"#) }
        #expect(try await scene.pages(of: phone) == (2...9).map { "\($0) 1" })
        let reply = try await phone.ask(lost.next)
        expectProblem(reply, .cursorExpired, errors: [])
        #expect(reply.json?["snapshot"]?.string == "/v1/devices/\(phone.device.lowercased)/pull")
        phone.counters = #"{"task":10}"#
        #expect(try await phone.pull().numbered == ["a=10"])
        _ = try await phone.pull()
        #expect(try await scene.pages(of: phone) == ["10"])
        // of a lost table, or of another device
        let other = PullingDevice(scene.ada)
        expectProblem(try await other.ask(phone.cursor), .cursorExpired, errors: [])
    }

    @Test func `a restored device continues from its old cursor`() async throws {
        let scene = try await Self.scene("task")
        try await scene.write("task", "a")
        let phone = PullingDevice(scene.ada)
        _ = try await phone.pull()
        let (cursor, counters) = (phone.cursor, phone.counters)
        for id in ["b", "c", "d"] {
            try await scene.write("task", id)
            _ = try await phone.pull()
        }
        // the backup is older: later entities keep their numbers, new ones skip them
        (phone.cursor, phone.counters) = (cursor, counters)
        try await scene.write("task", "e")
        let reply = try await phone.pull()
        #expect(reply.numbered == ["b=2", "c=3", "d=4", "e=5"])
        let registration = try await send(
            .PUT,
            scene.gateway.address + "/v1/devices/\(phone.device.lowercased)",
            token: scene.ada.token
        )
        #expect(registration.counters == #"{"task":4}"#)
        // a wiped installation is a new device
        let wiped = PullingDevice(scene.ada)
        #expect(try await wiped.pull().numbered == ["a=1", "b=2", "c=3", "d=4", "e=5"])
    }

    @Test func `skips used numbers regardless of the device's counters`() async throws {
        let scene = try await Self.scene("task")
        let phone = PullingDevice(scene.ada, counters: #"{"task":1}"#)
        try await scene.number(phone, "task", 1, nil)
        try await scene.number(phone, "task", 3, "own")
        try await scene.number(phone, "task", 4, nil)
        for id in ["a", "b", "own", "c"] { try await scene.write("task", id) }
        let reply = try await phone.ask()
        #expect(reply.numbered == ["a=2", "b=5", "own=3", "c=6"])
        #expect(reply.counters == #"{"task":7}"#)
        // without a counter, numbering starts after the highest one; numbers that another page assigned to an entity
        // are not reused
        #expect(try await phone.ask(counters: "{}").numbered == ["a=7", "b=5", "own=3", "c=6"])
        #expect(try await phone.ask(counters: #"{"task":null}"#).counters == #"{"task":8}"#)
        // a create in between has precedence
        _ = try await phone.pull()
        try await scene.number(phone, "task", 2, nil)
        let on = try await phone.pull()
        #expect(on.changes.isEmpty)
        #expect(
            try await scene.numbers(of: phone)
                == ["task 1 -", "task 2 -", "task 3 own", "task 4 -", "task 5 b", "task 6 c"]
        )
        try await scene.write("task", "a")
        #expect(try await phone.pull().numbered == ["a=7"])
    }

    @Test func `skips a long range of used numbers`() async throws {
        let scene = try await Self.scene("task")
        let phone = PullingDevice(scene.ada, counters: #"{"task":1}"#)
        let key =
            "'\(scene.ada.organization.lowercased)', '\(scene.ada.user.lowercased)', '\(phone.device.lowercased)'"
        try await scene.execute(
            """
            INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
            SELECT \(key), 'task', n, 'x' || n FROM generate_series(1, 3000) n WHERE n <> 7
            """
        )
        for id in ["a", "b", "c"] { try await scene.write("task", id) }
        #expect(try await phone.ask().numbered == ["a=7", "b=3001", "c=3002"])
    }

    @Test func `numbers use the whole range of 64 bits`() async throws {
        let scene = try await Self.scene("task")
        let (least, most) = (Int64.min, Int64.max)
        for id in ["a", "b"] { try await scene.write("task", id) }
        let low = PullingDevice(scene.ada, counters: #"{"task":\#(least)}"#)
        #expect(try await low.pull().numbered == ["a=\(least)", "b=\(least + 1)"])
        #expect(low.counters == #"{"task":\#(least + 2)}"#)
        _ = try await low.pull()
        #expect(try await scene.numbers(of: low) == ["task \(least) a", "task \(least + 1) b"])

        let high = PullingDevice(scene.ada, counters: #"{"task":\#(most - 1)}"#)
        #expect(try await high.pull().numbered == ["a=\(most - 1)", "b=\(most)"])
        #expect(high.counters == #"{"task":null}"#)
        #expect(try await high.pull().counters == #"{"task":null}"#, "and it can be sent back")
        let registration = "/v1/devices/\(high.device.lowercased)"
        let reply = try await send(.PUT, scene.gateway.address + registration, token: scene.ada.token)
        #expect(reply.counters == #"{"task":null}"#)
        try await scene.write("task", "c")
        for counters in ["{}", #"{"task":null}"#, #"{"task":\#(most)}"#, #"{"task":\#(most - 1)}"#] {
            let reply = try await high.ask(high.cursor, counters: counters)
            expectProblem(reply, .validationFailed, errors: ["/next_local_ids/task member_range"])
        }
        high.counters = #"{"task":-5}"#
        #expect(try await high.pull().numbered == ["c=-5"], "there is room below")
    }

    @Test func `translates ids in relations and changes nothing else`() async throws {
        let scene = try await Self.scene("folder", "tag")
        try await scene.type("contact", #"{"id_space":"mapped","relations":{"folder":"folder"}}"#)
        try await scene.type("label", #"{"id_space":"shared"}"#)
        let relations = #"{"folderId":"folder","tags":"tag","contact":"contact","label":"label","new":"unheard-of"}"#
        try await scene.type("task", #"{"id_space":"device","relations":\#(relations)}"#)
        let document =
            #"{"folderId" : "F" ,"tags":["t1",42,null,"t1",{"a":1},1.5,true],"contact":"C","label":7,"new":5,"#
            + #""other":"F","deep":{"folderId":"F"}}"#
        try await scene.write("task", "T", document)
        try await scene.write("contact", "C", #"{"folder":["F"],"name":"Kari"}"#)
        try await scene.write("tag", "42", isInteger: true)
        try await scene.write("folder", "F")
        let phone = PullingDevice(scene.ada, counters: #"{"folder":5}"#)
        let first = try await phone.pull(limit: 1)
        #expect(first.numbered == ["T=1"])
        // the tags are numbered in advance, because their change may come later
        let translated =
            #"{"folderId" : 5 ,"tags":[1,2,null,1,{"a":1},1.5,true],"contact":"C","label":7,"new":5,"#
            + #""other":"F","deep":{"folderId":"F"}}"#
        #expect(first.documents == [translated])
        #expect(first.counters == #"{"folder":6,"tag":3,"task":2}"#)
        let rest = try await phone.pull()
        #expect(rest.numbered == ["C=-", "42=2", "F=5"])
        #expect(rest.documents == [#"{"folder":[5],"name":"Kari"}"#, "{}", "{}"])
        #expect(rest.changes[1]["id"]?.text == "42", "a number, as the server gave it")
        #expect(try await scene.numbers(of: phone) == ["folder 5 F", "tag 1 t1", "tag 2 42", "task 1 T"])
    }

    @Test func `sends a deletion only to devices that have the entity`() async throws {
        let scene = try await Self.scene("task")
        try await scene.write("task", "a")
        try await scene.write("task", "b")
        let phone = PullingDevice(scene.ada)
        _ = try await phone.pull()
        try await scene.write("task", "a", nil)
        try await scene.write("task", "never-seen", nil)
        let reply = try await phone.pull()
        #expect(reply.numbered == ["a=1"])
        #expect(reply.changes.first?["deleted"]?.bool == true)
        #expect(reply.documents == ["null"])
        let tablet = PullingDevice(scene.ada)
        #expect(try await tablet.pull().numbered == ["b=1"])
        // a page with only such deletions is empty, and has a cursor
        try await scene.write("task", "another", nil)
        let empty = try await tablet.pull(limit: 1)
        #expect(empty.changes.isEmpty)
        #expect(empty.isUpToDate == true)
    }

    @Test func `devices, users and tenants have independent numbers`() async throws {
        let scene = try await Self.scene("task", "diary")
        try await scene.type("diary", #"{"visibility":"user"}"#)
        try await scene.type("task", of: scene.eve)
        try await scene.write("diary", "secret")
        for id in ["a", "b"] { try await scene.write("task", id) }
        try await scene.write("task", "a", by: scene.eve)
        let id = UUID()
        let twin = try await SyncWorker(scene.gateway, organization: scene.eve.organization, user: scene.ada.user)
        let ada = PullingDevice(scene.ada, device: id, counters: #"{"task":100}"#)
        #expect(try await ada.pull().numbered == ["secret=1", "a=100", "b=101"])
        _ = try await ada.pull()
        for (worker, numbers) in [
            (scene.bob, ["a=1", "b=2"]), (scene.eve, ["a=1"]), (twin, ["a=1"]),
        ] {
            // the same device id, also with Ada's cursor
            let device = PullingDevice(worker, device: id)
            let reply = try await device.ask(ada.cursor)
            expectProblem(reply, .cursorExpired, errors: [])
            #expect(try await device.pull().numbered == numbers)
            _ = try await device.pull()
        }
        #expect(try await ada.ask().numbered == ["secret=1", "a=100", "b=101"])
    }

    @Test func `a wait continues while there are no visible changes`() async throws {
        let scene = try await Self.scene("task")
        let phone = PullingDevice(scene.ada)
        _ = try await phone.pull()
        let (device, worker, cursor) = (phone.device, scene.ada, try #require(phone.cursor))
        let waiting = Task {
            try await worker.post("/v1/devices/\(device.lowercased)/pull", #"{"since":"\#(cursor)","wait":60}"#)
        }
        try await scene.reaches("sluice_http_requests_in_flight 1")
        // a deletion before the device's first pull is not visible; a push wakes waiting pulls
        try await scene.write("task", "gone", nil)
        _ = try await scene.eve.push([scene.eve.create("note")])
        try await scene.write("task", "a")
        _ = try await scene.bob.push([scene.bob.create("note")])
        let reply = try await waiting.value
        #expect(reply.status == 200)
        #expect(reply.numbered.first == "a=1")
        let start = ContinuousClock.now
        try await scene.write("task", "gone-too", nil)
        let empty = try await phone.ask(reply.next, wait: 1)
        #expect(empty.changes.isEmpty || empty.numbered.allSatisfy { $0.hasSuffix("=-") })
        #expect(.now - start < .seconds(60), "the wait is for a second, and ends")
        #expect(empty.isUpToDate == true)
    }

    @Test func `cursors of other endpoints confirm nothing`() async throws {
        let scene = try await Self.scene("task")
        try await scene.write("task", "a")
        let phone = PullingDevice(scene.ada)
        #expect(try await phone.ask().numbered == ["a=1"])
        let plain = try #require(try await scene.ada.get("/v1/changes").next)
        let feed = try #require(try await scene.ada.push([scene.ada.create("note")]).json?["feed"]?.string)
        for cursor in [plain, feed] { #expect(try await phone.ask(cursor).status == 200) }
        #expect(try await scene.numbers(of: phone) == [])
        let filtered = try #require(try await scene.ada.get("/v1/changes?entity_type=task").next)
        expectProblem(try await phone.ask(filtered), .invalidRequest, errors: ["/since parameter_invalid"])
        // a pull's cursor is valid for the feed
        let next = try #require(try await phone.ask().next)
        #expect(try await scene.ada.get("/v1/changes?since=\(next)").status == 200)
        #expect(try await scene.numbers(of: phone) == [])
    }

    @Test func `confirms numbers behind the horizon but not those of another epoch`() async throws {
        let scene = try await Self.scene("task")
        try await scene.write("task", "a")
        let (phone, tablet) = (PullingDevice(scene.ada), PullingDevice(scene.ada))
        _ = try await phone.pull()
        _ = try await tablet.pull()
        try await scene.write("task", "b")
        try await scene.execute("UPDATE feeds SET horizon = last_position")
        let reply = try await phone.ask(phone.cursor)
        expectProblem(reply, .cursorExpired, errors: [])
        #expect(reply.json?["snapshot"]?.string == "/v1/devices/\(phone.device.lowercased)/pull")
        #expect(try await scene.numbers(of: phone) == ["task 1 a"])
        #expect(try await phone.ask(counters: #"{"task":9}"#).numbered == ["a=1", "b=9"])
        try await scene.execute("UPDATE feeds SET epoch = epoch + 1")
        expectProblem(try await tablet.ask(tablet.cursor), .cursorExpired, errors: [])
        #expect(try await scene.numbers(of: tablet) == [])
    }

    @Test func `rejects an invalid pull without a trace`() async throws {
        let scene = try await Self.scene("job")
        try await scene.type("contact", "{}")
        try await scene.type("label", #"{"id_space":"shared"}"#)
        try await scene.write("job", "a")
        let phone = PullingDevice(scene.ada)
        let cases: [(String, ProblemCode, [String])] = [
            ("{", .invalidJSON, []), ("[]", .invalidRequest, [" member_type"]),
            (#"{"since":"x"}"#, .invalidRequest, ["/since parameter_invalid"]),
            (#"{"since":"f1-1-1-1-0-0"}"#, .invalidRequest, ["/since parameter_invalid"]),
            (#"{"since":5}"#, .invalidRequest, ["/since member_type"]),
            (#"{"limit":0}"#, .invalidRequest, ["/limit member_range"]),
            (#"{"limit":1001}"#, .invalidRequest, ["/limit member_range"]),
            (#"{"wait":-1}"#, .invalidRequest, ["/wait member_range"]),
            (#"{"Since":null}"#, .invalidRequest, ["/Since member_unknown"]),
            (#"{"limit":1,"limit":1}"#, .invalidRequest, ["/limit member_duplicate"]),
            (
                #"{"next_local_ids":{"contact":1}}"#, .invalidRequest,
                ["/next_local_ids/contact entity_type_valid_enum"]
            ),
            (#"{"next_local_ids":{"label":1}}"#, .invalidRequest, ["/next_local_ids/label entity_type_valid_enum"]),
        ]
        try await scene.whileNothingChanges {
            for (body, code, errors) in cases {
                expectProblem(try await phone.send(body), code, errors: errors)
            }
            let long = "{" + String(repeating: " ", count: 65_536) + "}"
            expectProblem(try await phone.send(long), .payloadTooLarge, errors: [])
            let path = "/v1/devices/\(phone.device.lowercased)/pull"
            expectProblem(try await scene.ada.post(path + "?limit=1", "{}"), .invalidRequest)
            expectProblem(try await scene.ada.post("/v1/devices/x/pull", "{}"), .notFound, errors: [])
            expectProblem(
                try await scene.ada.post(path, "{}", headers: [("Content-Type", "text/plain")]),
                .unsupportedMediaType
            )
            expectProblem(try await scene.ada.get(path), .methodNotAllowed)
        }
        // counters of unregistered types are allowed
        let reply = try await phone.ask(counters: #"{"unheard-of":9,"job":3}"#)
        #expect(reply.numbered.first == "a=3")
        #expect(reply.counters == #"{"job":4,"unheard-of":9}"#)
        // a missing body counts as empty
        let bare = try await send(
            .POST,
            scene.gateway.address + "/v1/devices/\(phone.device.lowercased)/pull",
            token: scene.ada.token
        )
        #expect(bare.status == 200)
    }

    @Test func `translates sealed documents as well`() async throws {
        let scene = try await TwoTenantFixture(masterKeys: TestKeys.first)
        try await scene.type("folder")
        try await scene.type("note", #"{"relations":{"folder":"folder"}}"#)
        let pushed = try await scene.ada.push([scene.ada.create("note", #"{"folder":"F","text":"secret"}"#)])
        #expect(pushed.statuses == ["succeeded"])
        #expect(try await scene.mentions(of: "secret").filter { $0.value > 0 } == [:])
        let reply = try await PullingDevice(scene.bob, counters: #"{"folder":23}"#).ask()
        #expect(reply.documents == [#"{"folder":23,"text":"secret"}"#])
    }

    @Test func `a registration returns the device's next numbers`() async throws {
        let scene = try await Self.scene("task", "folder")
        try await scene.type("contact", "{}")
        let phone = PullingDevice(scene.ada)
        let path = "/v1/devices/\(phone.device.lowercased)"
        func register(_ worker: SyncWorker) async throws -> Reply {
            try await send(.PUT, scene.gateway.address + path, token: worker.token)
        }
        #expect(try await register(scene.ada).counters == #"{"folder":1,"task":1}"#)
        try await scene.number(phone, "task", 41, nil)
        try await scene.number(phone, "folder", -3, "F")
        #expect(try await register(scene.ada).counters == #"{"folder":1,"task":42}"#)
        #expect(try await register(scene.bob).counters == #"{"folder":1,"task":1}"#)
        #expect(try await register(scene.eve).counters == "{}")
    }

    @Test func `concurrent pulls of one device return the same page`() async throws {
        let scene = try await Self.scene("task")
        for id in ["a", "b"] { try await scene.write("task", id) }
        let phone = PullingDevice(scene.ada)
        let path = "/v1/devices/\(phone.device.lowercased)/pull"
        let replies = try await withThrowingTaskGroup(of: Reply.self) { [ada = scene.ada] group in
            for _ in 0..<12 { group.addTask { try await ada.post(path, "{}") } }
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        let served = replies.filter { $0.status == 200 }
        #expect(replies.allSatisfy { [200, 503].contains($0.status) })
        #expect(served.count > 5)
        #expect(Set(served.compactMap(\.next)).count == 1, "they are one page")
        #expect(Set(served.map(\.numbered)) == [["a=1", "b=2"]])
        #expect(try await scene.pages(of: phone) == ["1 2"])
    }
}
