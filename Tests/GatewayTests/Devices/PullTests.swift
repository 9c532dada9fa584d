import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// `POST /v1/devices/{device_id}/pull`
@Suite struct PullTests {
    private static func fixture(_ types: String...) async throws -> TwoTenantFixture {
        let fixture = try await TwoTenantFixture()
        for type in types { try await fixture.type(type) }
        return fixture
    }

    @Test func `a page has the members of the contract and the device's own ids`() async throws {
        let fixture = try await Self.fixture("task")
        try await fixture.write("task", "s1", #"{"a" : 1.0}"#)
        _ = try await fixture.ada.push([fixture.ada.create("note")])
        let phone = PullingDevice(fixture.ada)
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
        #expect(
            reply.changes.last?.names == names.map { $0 == "local_id" ? "client_id" : $0 },
            "a mapped type has client_id instead of local_id"
        )
        #expect(reply.isUpToDate == true)
        #expect(reply.counters == #"{"task":2}"#)
        // as in /v1/changes, except for the device's own ids
        let plain = try await fixture.ada.get("/v1/changes").changes
        #expect(plain.map { $0["id"]?.text } == reply.changes.map { $0["id"]?.text })
        #expect(plain[0].names == names.filter { $0 != "local_id" })
        // a device with numbers is registered
        let devices = "SELECT accepted_sequence::text FROM devices WHERE device_id = '\(phone.device)'"
        #expect(try await fixture.lines(devices) == ["0"])
    }

    /// Specification 002 (docs/spec): two devices and two tasks. Task 47 in folder 23 on one device is task 81 in
    /// folder 104 on the other.
    @Test func `each device has its own ids for the same graph`() async throws {
        let fixture = try await Self.fixture("folder")
        try await fixture.type("task", #"{"id_space":"device","relations":{"folderId":"folder"}}"#)
        let device1 = PullingDevice(fixture.ada, counters: #"{"task":47,"folder":23}"#)
        let device2 = PullingDevice(fixture.ada, counters: #"{"task":81,"folder":104}"#)
        try await fixture.write("folder", "F")
        try await fixture.write("task", "T", #"{"folderId":"F","n":"F"}"#)
        let (first, second) = (try await device1.pull(), try await device2.pull())
        #expect(first.numbered == ["F=23", "T=47"])
        #expect(second.numbered == ["F=104", "T=81"])
        #expect(first.documents[1] == #"{"folderId":23,"n":"F"}"#, "a member that is not a relation is not translated")
        #expect(second.documents[1] == #"{"folderId":104,"n":"F"}"#)
        #expect(second.counters == #"{"folder":105,"task":82}"#)
        // a change is translated to each device's own id
        try await fixture.write("task", "T", #"{"folderId":null}"#)
        #expect(try await device1.pull().numbered == ["T=47"])
        #expect(try await device2.pull().numbered == ["T=81"])
    }

    private static func related(_ name: String, _ count: Int) -> String {
        #"{"fs":["# + (0..<count).map { #""\#(name)\#($0)""# }.joined(separator: ",") + "]}"
    }

    @Test func `a page ends after ten thousand new ids, and more ids are confirmed in parts`() async throws {
        let fixture = try await Self.fixture("folder")
        try await fixture.type("task", #"{"id_space":"device","relations":{"fs":"folder"}}"#)
        for task in ["a", "b", "c"] { try await fixture.write("task", task, Self.related(task, 6_000)) }
        // this document was stored before the size of ingested documents was limited
        try await fixture.write("task", "d", Self.related("d", 30_000))
        let phone = PullingDevice(fixture.ada)
        let first = try await phone.pull()
        #expect(first.numbered == ["a=1", "b=2"])
        #expect(first.isUpToDate == false)
        #expect(first.counters == #"{"folder":12001,"task":3}"#)
        let second = try await phone.pull()
        #expect(second.numbered == ["c=3", "d=4"], "\(second.numbered)")
        let end = try await phone.pull()
        #expect(end.changes.isEmpty && end.isUpToDate == true)
        let numbers = try await fixture.numbers(of: phone).count
        #expect(numbers == 48_004, "\(numbers)")
        #expect(end.counters == #"{"folder":48001,"task":5}"# || phone.counters != nil)
    }

    @Test func `an assignment is provisional until the device's next pull`() async throws {
        let fixture = try await Self.fixture("task")
        for id in ["a", "b", "c"] { try await fixture.write("task", id) }
        let phone = PullingDevice(fixture.ada)
        // the response is lost twice, and each repeat is created with the counters of its request
        #expect(try await phone.ask(limit: 2).numbered == ["a=1", "b=2"])
        #expect(try await phone.ask(limit: 2).numbered == ["a=1", "b=2"])
        #expect(try await phone.ask(limit: 2, counters: #"{"task":10}"#).numbered == ["a=10", "b=11"])
        #expect(try await fixture.numbers(of: phone) == [])
        #expect(try await fixture.pages(of: phone) == ["1 2", "2 2"], "equal pages are stored once")
        phone.counters = #"{"task":5}"#
        #expect(try await phone.pull(limit: 2).numbered == ["a=5", "b=6"])
        #expect(phone.counters == #"{"task":7}"#)
        let cursor = try #require(phone.cursor)
        #expect(try await phone.pull(limit: 2).numbered == ["c=7"])
        #expect(try await fixture.numbers(of: phone) == ["task 5 a", "task 6 b"])
        #expect(try await fixture.pages(of: phone) == ["3", "4 1"], "other pages are deleted")
        // if the device pulls again from the same cursor, confirmed numbers stay, and the others are assigned again
        #expect(try await phone.ask(cursor, counters: #"{"task":70}"#).numbered == ["c=70"])
        #expect(try await phone.ask(counters: #"{"task":70}"#).numbered == ["a=5", "b=6", "c=70"])
        let end = try await phone.pull()
        #expect(end.changes.isEmpty)
        #expect(end.next == phone.cursor)
        #expect(try await fixture.numbers(of: phone) == ["task 5 a", "task 6 b", "task 7 c"])
        // without changes, no row is written, and the cursor stays the same
        let tables = try await fixture.tables()
        #expect(try await phone.pull().next == end.next)
        try await fixture.write("task", "a", #"{"n":2}"#)
        #expect(try await phone.pull().numbered == ["a=5"])
        #expect(try await fixture.tables()["local_id_pages"] == tables["local_id_pages"])
        #expect(try await fixture.tables()["local_ids"] == tables["local_ids"])
    }

    @Test func `a late copy of an older pull does not change confirmed numbers`() async throws {
        let fixture = try await Self.fixture("task")
        try await fixture.write("task", "a")
        let phone = PullingDevice(fixture.ada)
        _ = try await phone.pull()
        let first = try #require(phone.cursor)
        try await fixture.write("task", "b")
        #expect(try await phone.pull().numbered == ["b=2"])
        // both pulls arrive again, and their responses are lost
        #expect(try await phone.ask(counters: "{}").numbered == ["a=1", "b=2"])
        #expect(try await phone.ask(first, counters: #"{"task":2}"#).numbered == ["b=2"])
        try await fixture.write("task", "c")
        #expect(try await phone.pull().numbered == ["c=3"])
        #expect(try await fixture.numbers(of: phone) == ["task 1 a", "task 2 b"])
        #expect(try await phone.ask(first, counters: #"{"task":2}"#).numbered == ["b=2", "c=3"])
        _ = try await phone.pull()
        #expect(try await fixture.numbers(of: phone) == ["task 1 a", "task 2 b", "task 3 c"])
    }

    @Test func `the oldest of too many lost responses cannot be confirmed`() async throws {
        let fixture = try await Self.fixture("task")
        try await fixture.write("task", "a")
        let phone = PullingDevice(fixture.ada)
        let lost = try await phone.ask(counters: #"{"task":1}"#)
        for number in 2...9 { _ = try await phone.ask(counters: #"{"task":\#(number)}"#) }
        #expect(try await fixture.pages(of: phone) == (2...9).map { "\($0) 1" })
        let reply = try await phone.ask(lost.next)
        expectProblem(reply, .cursorExpired, errors: [])
        #expect(reply.json?["snapshot"]?.string == "/v1/devices/\(phone.device.lowercased)/pull")
        phone.counters = #"{"task":10}"#
        #expect(try await phone.pull().numbered == ["a=10"])
        _ = try await phone.pull()
        #expect(try await fixture.pages(of: phone) == ["10"])
        // the counters of a lost table, or of another device
        let other = PullingDevice(fixture.ada)
        expectProblem(try await other.ask(phone.cursor), .cursorExpired, errors: [])
    }

    @Test func `a restored device continues from its old cursor`() async throws {
        let fixture = try await Self.fixture("task")
        try await fixture.write("task", "a")
        let phone = PullingDevice(fixture.ada)
        _ = try await phone.pull()
        let (cursor, counters) = (phone.cursor, phone.counters)
        for id in ["b", "c", "d"] {
            try await fixture.write("task", id)
            _ = try await phone.pull()
        }
        // entities from after the backup keep their numbers, and new entities get other numbers
        (phone.cursor, phone.counters) = (cursor, counters)
        try await fixture.write("task", "e")
        let reply = try await phone.pull()
        #expect(reply.numbered == ["b=2", "c=3", "d=4", "e=5"])
        let registration = try await send(
            .PUT,
            fixture.gateway.address + "/v1/devices/\(phone.device.lowercased)",
            token: fixture.ada.token
        )
        #expect(registration.counters == #"{"task":4}"#)
        // a wiped installation is a new device
        let wiped = PullingDevice(fixture.ada)
        #expect(try await wiped.pull().numbered == ["a=1", "b=2", "c=3", "d=4", "e=5"])
    }

    @Test func `skips used numbers regardless of the device's counters`() async throws {
        let fixture = try await Self.fixture("task")
        let phone = PullingDevice(fixture.ada, counters: #"{"task":1}"#)
        try await fixture.number(phone, "task", 1, nil)
        try await fixture.number(phone, "task", 3, "own")
        try await fixture.number(phone, "task", 4, nil)
        for id in ["a", "b", "own", "c"] { try await fixture.write("task", id) }
        let reply = try await phone.ask()
        #expect(reply.numbered == ["a=2", "b=5", "own=3", "c=6"])
        #expect(reply.counters == #"{"task":7}"#)
        // without a counter, numbering starts after the highest number; numbers that another page assigned to an entity
        // are not reused
        #expect(try await phone.ask(counters: "{}").numbered == ["a=7", "b=5", "own=3", "c=6"])
        #expect(try await phone.ask(counters: #"{"task":null}"#).counters == #"{"task":8}"#)
        // a create between two pulls has precedence
        _ = try await phone.pull()
        try await fixture.number(phone, "task", 2, nil)
        let on = try await phone.pull()
        #expect(on.changes.isEmpty)
        #expect(
            try await fixture.numbers(of: phone)
                == ["task 1 -", "task 2 -", "task 3 own", "task 4 -", "task 5 b", "task 6 c"]
        )
        try await fixture.write("task", "a")
        #expect(try await phone.pull().numbered == ["a=7"])
    }

    @Test func `skips a long range of used numbers`() async throws {
        let fixture = try await Self.fixture("task")
        let phone = PullingDevice(fixture.ada, counters: #"{"task":1}"#)
        let key =
            "'\(fixture.ada.organization.lowercased)', '\(fixture.ada.user.lowercased)', '\(phone.device.lowercased)'"
        try await fixture.execute(
            """
            INSERT INTO local_ids (organization_id, user_id, device_id, entity_type, local_id, server_id)
            SELECT \(key), 'task', n, 'x' || n FROM generate_series(1, 3000) n WHERE n <> 7
            """
        )
        for id in ["a", "b", "c"] { try await fixture.write("task", id) }
        #expect(try await phone.ask().numbered == ["a=7", "b=3001", "c=3002"])
    }

    @Test func `numbers use the whole range of 64 bits`() async throws {
        let fixture = try await Self.fixture("task")
        let (least, most) = (Int64.min, Int64.max)
        for id in ["a", "b"] { try await fixture.write("task", id) }
        let low = PullingDevice(fixture.ada, counters: #"{"task":\#(least)}"#)
        #expect(try await low.pull().numbered == ["a=\(least)", "b=\(least + 1)"])
        #expect(low.counters == #"{"task":\#(least + 2)}"#)
        _ = try await low.pull()
        #expect(try await fixture.numbers(of: low) == ["task \(least) a", "task \(least + 1) b"])

        let high = PullingDevice(fixture.ada, counters: #"{"task":\#(most - 1)}"#)
        #expect(try await high.pull().numbered == ["a=\(most - 1)", "b=\(most)"])
        #expect(high.counters == #"{"task":null}"#)
        #expect(try await high.pull().counters == #"{"task":null}"#, "the null counter can be sent back")
        let registration = "/v1/devices/\(high.device.lowercased)"
        let reply = try await send(.PUT, fixture.gateway.address + registration, token: fixture.ada.token)
        #expect(reply.counters == #"{"task":null}"#)
        try await fixture.write("task", "c")
        for counters in ["{}", #"{"task":null}"#, #"{"task":\#(most)}"#, #"{"task":\#(most - 1)}"#] {
            let reply = try await high.ask(high.cursor, counters: counters)
            expectProblem(reply, .validationFailed, errors: ["/next_local_ids/task member_range"])
        }
        high.counters = #"{"task":-5}"#
        #expect(try await high.pull().numbered == ["c=-5"], "numbers below the highest are free")
    }

    @Test func `translates ids in relations and changes nothing else`() async throws {
        let fixture = try await Self.fixture("folder", "tag")
        try await fixture.type("contact", #"{"id_space":"mapped","relations":{"folder":"folder"}}"#)
        try await fixture.type("label", #"{"id_space":"shared"}"#)
        let relations = #"{"folderId":"folder","tags":"tag","contact":"contact","label":"label","new":"unheard-of"}"#
        try await fixture.type("task", #"{"id_space":"device","relations":\#(relations)}"#)
        let document =
            #"{"folderId" : "F" ,"tags":["t1",42,null,"t1",{"a":1},1.5,true],"contact":"C","label":7,"new":5,"#
            + #""other":"F","deep":{"folderId":"F"}}"#
        try await fixture.write("task", "T", document)
        try await fixture.write("contact", "C", #"{"folder":["F"],"name":"Kari"}"#)
        try await fixture.write("tag", "42", isInteger: true)
        try await fixture.write("folder", "F")
        let phone = PullingDevice(fixture.ada, counters: #"{"folder":5}"#)
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
        #expect(rest.changes[1]["id"]?.text == "42", "the id is a number, as in the feed")
        #expect(try await fixture.numbers(of: phone) == ["folder 5 F", "tag 1 t1", "tag 2 42", "task 1 T"])
    }

    @Test func `sends a deletion only to devices that have the entity`() async throws {
        let fixture = try await Self.fixture("task")
        try await fixture.write("task", "a")
        try await fixture.write("task", "b")
        let phone = PullingDevice(fixture.ada)
        _ = try await phone.pull()
        try await fixture.write("task", "a", nil)
        try await fixture.write("task", "never-seen", nil)
        let reply = try await phone.pull()
        #expect(reply.numbered == ["a=1"])
        #expect(reply.changes.first?["deleted"]?.bool == true)
        #expect(reply.documents == ["null"])
        let tablet = PullingDevice(fixture.ada)
        #expect(try await tablet.pull().numbered == ["b=1"])
        // a page with only such deletions is empty, and has a cursor
        try await fixture.write("task", "another", nil)
        let empty = try await tablet.pull(limit: 1)
        #expect(empty.changes.isEmpty)
        #expect(empty.isUpToDate == true)
    }

    @Test func `devices, users and tenants have independent numbers`() async throws {
        let fixture = try await Self.fixture("task", "diary")
        try await fixture.type("diary", #"{"visibility":"user"}"#)
        try await fixture.type("task", of: fixture.eve)
        try await fixture.write("diary", "secret")
        for id in ["a", "b"] { try await fixture.write("task", id) }
        try await fixture.write("task", "a", by: fixture.eve)
        let id = UUID()
        let twin = try await SyncWorker(fixture.gateway, organization: fixture.eve.organization, user: fixture.ada.user)
        let ada = PullingDevice(fixture.ada, device: id, counters: #"{"task":100}"#)
        #expect(try await ada.pull().numbered == ["secret=1", "a=100", "b=101"])
        _ = try await ada.pull()
        for (worker, numbers) in [
            (fixture.bob, ["a=1", "b=2"]), (fixture.eve, ["a=1"]), (twin, ["a=1"]),
        ] {
            // each worker pulls under the same device id, at first with Ada's cursor
            let device = PullingDevice(worker, device: id)
            let reply = try await device.ask(ada.cursor)
            expectProblem(reply, .cursorExpired, errors: [])
            #expect(try await device.pull().numbered == numbers)
            _ = try await device.pull()
        }
        #expect(try await ada.ask().numbered == ["secret=1", "a=100", "b=101"])
    }

    @Test func `a wait continues while there are no visible changes`() async throws {
        let fixture = try await Self.fixture("task")
        let phone = PullingDevice(fixture.ada)
        _ = try await phone.pull()
        let (device, worker, cursor) = (phone.device, fixture.ada, try #require(phone.cursor))
        let waiting = Task {
            try await worker.post("/v1/devices/\(device.lowercased)/pull", #"{"since":"\#(cursor)","wait":60}"#)
        }
        try await fixture.reaches("sluice_http_requests_in_flight 1")
        // a deletion before the device's first pull is not visible; a push wakes waiting pulls
        try await fixture.write("task", "gone", nil)
        _ = try await fixture.eve.push([fixture.eve.create("note")])
        try await fixture.write("task", "a")
        _ = try await fixture.bob.push([fixture.bob.create("note")])
        let reply = try await waiting.value
        #expect(reply.status == 200)
        #expect(reply.numbered.first == "a=1")
        let start = ContinuousClock.now
        try await fixture.write("task", "gone-too", nil)
        let empty = try await phone.ask(reply.next, wait: 1)
        #expect(empty.changes.isEmpty || empty.numbered.allSatisfy { $0.hasSuffix("=-") })
        #expect(.now - start < .seconds(60), "the wait ends after a second")
        #expect(empty.isUpToDate == true)
    }

    @Test func `cursors of other endpoints confirm nothing`() async throws {
        let fixture = try await Self.fixture("task")
        try await fixture.write("task", "a")
        let phone = PullingDevice(fixture.ada)
        #expect(try await phone.ask().numbered == ["a=1"])
        let plain = try #require(try await fixture.ada.get("/v1/changes").next)
        let feed = try #require(try await fixture.ada.push([fixture.ada.create("note")]).json?["feed"]?.string)
        for cursor in [plain, feed] { #expect(try await phone.ask(cursor).status == 200) }
        #expect(try await fixture.numbers(of: phone) == [])
        let filtered = try #require(try await fixture.ada.get("/v1/changes?entity_type=task").next)
        expectProblem(try await phone.ask(filtered), .invalidRequest, errors: ["/since parameter_invalid"])
        // a pull's cursor is valid for the feed
        let next = try #require(try await phone.ask().next)
        #expect(try await fixture.ada.get("/v1/changes?since=\(next)").status == 200)
        #expect(try await fixture.numbers(of: phone) == [])
    }

    @Test func `confirms numbers before the horizon but not numbers of another epoch`() async throws {
        let fixture = try await Self.fixture("task")
        try await fixture.write("task", "a")
        let (phone, tablet) = (PullingDevice(fixture.ada), PullingDevice(fixture.ada))
        _ = try await phone.pull()
        _ = try await tablet.pull()
        try await fixture.write("task", "b")
        try await fixture.execute("UPDATE feeds SET horizon = last_position")
        let reply = try await phone.ask(phone.cursor)
        expectProblem(reply, .cursorExpired, errors: [])
        #expect(reply.json?["snapshot"]?.string == "/v1/devices/\(phone.device.lowercased)/pull")
        #expect(try await fixture.numbers(of: phone) == ["task 1 a"])
        #expect(try await phone.ask(counters: #"{"task":9}"#).numbered == ["a=1", "b=9"])
        try await fixture.execute("UPDATE feeds SET epoch = epoch + 1")
        expectProblem(try await tablet.ask(tablet.cursor), .cursorExpired, errors: [])
        #expect(try await fixture.numbers(of: tablet) == [])
    }

    @Test func `rejects an invalid pull without a trace`() async throws {
        let fixture = try await Self.fixture("job")
        try await fixture.type("contact", "{}")
        try await fixture.type("label", #"{"id_space":"shared"}"#)
        try await fixture.write("job", "a")
        let phone = PullingDevice(fixture.ada)
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
        try await fixture.whileNothingChanges {
            for (body, code, errors) in cases {
                expectProblem(try await phone.send(body), code, errors: errors)
            }
            let long = "{" + String(repeating: " ", count: 65_536) + "}"
            expectProblem(try await phone.send(long), .payloadTooLarge, errors: [])
            let path = "/v1/devices/\(phone.device.lowercased)/pull"
            expectProblem(try await fixture.ada.post(path + "?limit=1", "{}"), .invalidRequest)
            expectProblem(try await fixture.ada.post("/v1/devices/x/pull", "{}"), .notFound, errors: [])
            expectProblem(
                try await fixture.ada.post(path, "{}", headers: [("Content-Type", "text/plain")]),
                .unsupportedMediaType
            )
            expectProblem(try await fixture.ada.get(path), .methodNotAllowed)
        }
        // counters of unregistered types are allowed
        let reply = try await phone.ask(counters: #"{"unheard-of":9,"job":3}"#)
        #expect(reply.numbered.first == "a=3")
        #expect(reply.counters == #"{"job":4,"unheard-of":9}"#)
        // a missing body counts as empty
        let bare = try await send(
            .POST,
            fixture.gateway.address + "/v1/devices/\(phone.device.lowercased)/pull",
            token: fixture.ada.token
        )
        #expect(bare.status == 200)
    }

    @Test func `translates sealed documents as well`() async throws {
        let fixture = try await TwoTenantFixture(masterKeys: TestKeys.first)
        try await fixture.type("folder")
        try await fixture.type("note", #"{"relations":{"folder":"folder"}}"#)
        let pushed = try await fixture.ada.push([fixture.ada.create("note", #"{"folder":"F","text":"secret"}"#)])
        #expect(pushed.statuses == ["succeeded"])
        #expect(try await fixture.mentions(of: "secret").filter { $0.value > 0 } == [:])
        let reply = try await PullingDevice(fixture.bob, counters: #"{"folder":23}"#).ask()
        #expect(reply.documents == [#"{"folder":23,"text":"secret"}"#])
    }

    @Test func `a registration returns the device's next numbers`() async throws {
        let fixture = try await Self.fixture("task", "folder")
        try await fixture.type("contact", "{}")
        let phone = PullingDevice(fixture.ada)
        let path = "/v1/devices/\(phone.device.lowercased)"
        func register(_ worker: SyncWorker) async throws -> Reply {
            try await send(.PUT, fixture.gateway.address + path, token: worker.token)
        }
        #expect(try await register(fixture.ada).counters == #"{"folder":1,"task":1}"#)
        try await fixture.number(phone, "task", 41, nil)
        try await fixture.number(phone, "folder", -3, "F")
        #expect(try await register(fixture.ada).counters == #"{"folder":1,"task":42}"#)
        #expect(try await register(fixture.bob).counters == #"{"folder":1,"task":1}"#)
        #expect(try await register(fixture.eve).counters == "{}")
    }

    @Test func `concurrent pulls of one device return the same page`() async throws {
        let fixture = try await Self.fixture("task")
        for id in ["a", "b"] { try await fixture.write("task", id) }
        let phone = PullingDevice(fixture.ada)
        let path = "/v1/devices/\(phone.device.lowercased)/pull"
        let replies = try await withThrowingTaskGroup(of: Reply.self) { [ada = fixture.ada] group in
            for _ in 0..<12 { group.addTask { try await ada.post(path, "{}") } }
            return try await group.reduce(into: [Reply]()) { $0.append($1) }
        }
        let served = replies.filter { $0.status == 200 }
        #expect(replies.allSatisfy { [200, 503].contains($0.status) })
        #expect(served.count > 5)
        #expect(Set(served.compactMap(\.next)).count == 1, "all pulls return one page")
        #expect(Set(served.map(\.numbered)) == [["a=1", "b=2"]])
        #expect(try await fixture.pages(of: phone) == ["1 2"])
    }
}
