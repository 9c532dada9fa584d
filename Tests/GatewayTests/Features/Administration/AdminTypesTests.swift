import Foundation
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// `/admin/organizations/{id}/entity-types/{name}` and `…/users/{user}`
@Suite struct AdminTypesTests {
    @Test func `creates, updates and returns an entity type`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/entity-types/activity"
        expectProblem(try await fixture.operate(.GET, path), .notFound, errors: [])
        let made = try await fixture.operate(.PUT, path, "{}")
        #expect(made.status == 201)
        #expect(
            made.json?.names == [
                "name", "id_space", "relations", "on_delete", "visibility", "channels", "grants", "check_channels",
                "default_priority", "upstream", "on_erase", "routes", "in_use",
            ]
        )
        let defaults =
            #"{"name":"activity","id_space":"mapped","relations":{},"on_delete":{},"visibility":"organization","#
            + #""channels":[],"grants":[],"check_channels":false,"default_priority":10,"upstream":false,"#
            + #""on_erase":"delete","routes":null,"in_use":false}"#
        #expect(made.text == defaults)
        #expect(try await fixture.operate(.GET, path).text == defaults)
        let body = #"{"id_space":"shared","visibility":"user","default_priority":1000,"upstream":false,"relations":{}}"#
        let changed = try await fixture.operate(.PUT, path, body)
        #expect(changed.status == 200)
        #expect(changed.json?["id_space"]?.string == "shared")
        let kept = try await fixture.operate(.PUT, path, #"{"default_priority":0}"#)
        #expect(kept.json?["visibility"]?.string == "user", "absent members keep their values")
        #expect(kept.json?["id_space"]?.string == "shared")
        #expect(kept.json?["default_priority"]?.int64 == 0)
    }

    @Test func `refuses check_channels without routes and for shared ids`() async throws {
        let fixture = try await TwoTenantFixture()
        let upstream = #"{"base_url":"http://127.0.0.1:9"}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        let path = fixture.admin + "/entity-types/case"
        let base = #""visibility":"channels","channels":["team/{/team}"],"check_channels":true"#
        let routes = #""routes":{"collection":"/cases"}"#
        expectProblem(
            try await fixture.operate(.PUT, path, "{\(base)}"),
            .validationFailed,
            errors: ["/check_channels member_required"]
        )
        expectProblem(
            try await fixture.operate(.PUT, path, #"{"id_space":"shared",\#(base),\#(routes)}"#),
            .validationFailed,
            errors: ["/check_channels member_range"]
        )
        #expect(try await fixture.operate(.PUT, path, "{\(base),\(routes)}").status == 201)
        expectProblem(
            try await fixture.operate(.PUT, path, #"{"routes":null}"#),
            .validationFailed,
            errors: ["/check_channels member_required"]
        )
        // the setting has no effect without channels, and in the built-in store
        #expect(try await fixture.operate(.PUT, path, #"{"upstream":false,"routes":null}"#).status == 200)
    }

    @Test func `registers an entity type with its defaults on first use`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create("expense"), fixture.ada.create("task")])
        for (name, priority) in [("expense", 8), ("task", 0)] {
            let type = try await fixture.operate(.GET, fixture.admin + "/entity-types/" + name).json
            #expect(type?["id_space"]?.string == "mapped")
            #expect(type?["visibility"]?.string == "organization")
            #expect(type?["default_priority"]?.int64 == Int64(priority))
            #expect(type?["in_use"]?.bool == true)
        }
    }

    @Test func `forwards a new entity type if there is an upstream, unless the body sets otherwise`() async throws {
        let fixture = try await TwoTenantFixture()
        func put(_ name: String, _ body: String) async throws -> [String?] {
            let reply = try await fixture.operate(.PUT, fixture.admin + "/entity-types/" + name, body)
            return ["\(reply.status)", reply.json?["upstream"]?.text, reply.json?["visibility"]?.string]
        }
        try await fixture.whileNothingChanges {
            let reply = try await fixture.operate(.PUT, fixture.admin + "/entity-types/visit", #"{"upstream":true}"#)
            expectProblem(reply, .validationFailed, errors: ["/upstream member_range"])
            #expect(reply.text.contains("/upstream"))
        }
        #expect(try await put("early", "{}") == ["201", "false", "organization"])
        let upstream = fixture.admin + "/upstream"
        #expect(try await fixture.operate(.PUT, upstream, #"{"base_url":"http://127.0.0.1:1"}"#).status == 201)
        #expect(try await put("early", "{}") == ["200", "false", "organization"], "the type is unchanged")
        #expect(try await put("visit", "{}") == ["201", "true", "user"])
        #expect(try await put("open", #"{"visibility":"organization"}"#) == ["201", "true", "organization"])
        #expect(try await put("own", #"{"upstream":false}"#) == ["201", "false", "organization"])
        #expect(try await put("early", #"{"upstream":true}"#) == ["200", "true", "organization"])

        // `upstream` can be changed at any time, even for a type in use, and the change takes effect immediately
        #expect(try await fixture.ada.push([fixture.ada.create("own")]).statuses == ["succeeded"])
        #expect(try await put("own", #"{"upstream":true}"#) == ["200", "true", "organization"])
        var draft = fixture.ada.create("own")
        draft["endpoint"] = #""/own""#
        #expect(try await fixture.ada.push([draft]).statuses == ["pending"])
        #expect(try await put("own", #"{"upstream":false}"#) == ["200", "false", "organization"])
        #expect(try await fixture.bob.push([fixture.bob.create("own")]).statuses == ["succeeded"])

        // without the upstream, an entity type keeps its configured value
        #expect(try await fixture.operate(.DELETE, upstream).status == 204)
        #expect(try await put("visit", #"{"default_priority":3}"#) == ["200", "true", "user"])
        #expect(try await put("late", "{}") == ["201", "false", "organization"])
    }

    @Test func `fixes the id space of an entity type in use but not its other settings`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/entity-types/task"
        _ = try await fixture.operate(.PUT, path, #"{"id_space":"shared"}"#)
        #expect(try await fixture.operate(.PUT, path, #"{"id_space":"mapped"}"#).status == 200)
        #expect(try await fixture.ada.push([fixture.ada.create("task")]).statuses == ["succeeded"])
        try await fixture.whileNothingChanges {
            let reply = try await fixture.operate(.PUT, path, #"{"id_space":"shared","default_priority":7}"#)
            expectProblem(reply, .idSpaceIsImmutable, errors: ["/id_space id_space_is_immutable"])
        }
        let same = try await fixture.operate(.PUT, path, #"{"id_space":"mapped","default_priority":7}"#)
        #expect(same.status == 200)
        #expect(same.json?["default_priority"]?.int64 == 7)
        let draft = fixture.ada.create("task")
        _ = try await fixture.ada.push([draft])
        #expect(try await fixture.ada.get("/v1/mutations/\(draft.id)").json?["priority"]?.int64 == 7, "immediate")
    }

    /// A body with this number of relations.
    private static func relations(_ count: Int) -> String {
        #"{"relations":{\#((0..<count).map { #""m\#($0)":"folder""# }.joined(separator: ","))}}"#
    }

    @Test func `replaces relations as a whole and keeps those of an entity type in use`() async throws {
        let fixture = try await TwoTenantFixture()
        let path = fixture.admin + "/entity-types/note"
        func put(_ body: String) async throws -> (Int, String?) {
            let reply = try await fixture.operate(.PUT, path, body)
            return (reply.status, reply.json?["relations"]?.text)
        }
        // any entity type may have relations, to itself or to types that are not registered yet
        #expect(
            try await put(#"{"relations":{"parent":"note","folderId":"folder"}}"#) == (
                201, #"{"parent":"note","folderId":"folder"}"#
            )
        )
        #expect(try await put("{}") == (200, #"{"parent":"note","folderId":"folder"}"#))
        #expect(try await put(#"{"relations":{"folderId":"tag"}}"#) == (200, #"{"folderId":"tag"}"#))
        #expect(try await put(#"{"relations":{}}"#) == (200, "{}"))
        #expect(try await put(Self.relations(100)).0 == 200)
        #expect(try await put(#"{"relations":{"a/b":"folder","folderId":"folder"}}"#).0 == 200)
        #expect(try await fixture.operate(.GET, path).json?["relations"]?.names.sorted() == ["a/b", "folderId"])
        #expect(try await fixture.ada.push([fixture.ada.create("note", "{}")]).statuses == ["succeeded"])
        try await fixture.whileNothingChanges {
            for (body, pointer) in [
                (#"{"relations":{}}"#, "/relations/a~1b"), (#"{"relations":{"a/b":"folder"}}"#, "/relations/folderId"),
                (#"{"relations":{"a/b":"folder","folderId":"tag"},"default_priority":7}"#, "/relations/folderId"),
            ] {
                let reply = try await fixture.operate(.PUT, path, body)
                expectProblem(reply, .validationFailed, errors: ["\(pointer) relation_is_immutable"])
                #expect(reply.json?["detail"]?.string?.contains("folder") == true)
            }
            let reply = try await fixture.operate(.PUT, path, #"{"relations":{},"id_space":"device"}"#)
            expectProblem(reply, .idSpaceIsImmutable, errors: ["/id_space id_space_is_immutable"])
        }
        let more = #"{"relations":{"a/b":"folder","folderId":"folder","tag":"tag"}}"#
        #expect(try await put(more).0 == 200, "relations may be added")
        #expect(try await fixture.operate(.GET, path).json?["relations"]?.names.count == 3)
    }

    @Test func `accepts exactly three id spaces`() async throws {
        let fixture = try await TwoTenantFixture()
        for space in ["device", "shared", "mapped", "device"] {
            let reply = try await fixture.operate(
                .PUT,
                fixture.admin + "/entity-types/note",
                #"{"id_space":"\#(space)"}"#
            )
            #expect(reply.json?["id_space"]?.string == space)
        }
    }

    @Test func `uses client-chosen ids for a type in the shared id space`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/label", #"{"id_space":"shared"}"#)
        let id = UUID()
        let drafts = [id.quoted, "42"].map {
            fixture.ada.draft("create", "label", ["server_id": $0, "payload": #"{"n":1}"#])
        }
        #expect(try await fixture.ada.push(drafts).statuses == ["succeeded", "succeeded"])
        let changes = try await fixture.bob.get("/v1/changes").changes
        #expect(changes.map { $0["id"]?.text } == [id.quoted, "42"])
        let lookup = try await fixture.ada.post("/v1/id-mappings/lookup", #"{"client_ids":[\#(id.quoted)]}"#)
        #expect(lookup.mappings.isEmpty, "a shared id has no mapping")
        let again = fixture.bob.draft("create", "label", ["server_id": "42", "payload": "{}"])
        #expect(try await fixture.bob.push([again]).statuses == ["conflict"])
    }

    @Test func `names the invalid members of an entity type's body and changes nothing`() async throws {
        let fixture = try await TwoTenantFixture()
        let cases: [(String, ProblemCode, [String])] = [
            ("", .invalidJSON, []), ("[]", .invalidRequest, [" member_type"]),
            (#"{"upstream":false,"upstream":false}"#, .invalidRequest, ["/upstream member_duplicate"]),
            (#"{"id_space":"global"}"#, .validationFailed, ["/id_space member_range"]),
            (#"{"id_space":null}"#, .validationFailed, ["/id_space member_range"]),
            (#"{"visibility":"everyone"}"#, .validationFailed, ["/visibility member_range"]),
            (#"{"default_priority":1001}"#, .validationFailed, ["/default_priority member_range"]),
            (#"{"default_priority":-1}"#, .validationFailed, ["/default_priority member_range"]),
            (#"{"default_priority":"1"}"#, .validationFailed, ["/default_priority member_range"]),
            (#"{"upstream":true}"#, .validationFailed, ["/upstream member_range"]),
            (#"{"upstream":null}"#, .validationFailed, ["/upstream member_range"]),
            (#"{"upstream":"yes"}"#, .validationFailed, ["/upstream member_range"]),
            (#"{"relations":null}"#, .validationFailed, ["/relations member_range"]),
            (#"{"relations":["a"]}"#, .validationFailed, ["/relations member_range"]),
            (#"{"relations":{"":"b"}}"#, .validationFailed, ["/relations/ member_range"]),
            (#"{"relations":{"a\tb":"b"}}"#, .validationFailed, ["/relations/a\tb member_range"]),
            (#"{"relations":{"a/b":"B"}}"#, .validationFailed, ["/relations/a~1b entity_type_valid_enum"]),
            (#"{"relations":{"a":null}}"#, .validationFailed, ["/relations/a entity_type_valid_enum"]),
            (#"{"relations":{"a":"b","\u0061":"c"}}"#, .invalidRequest, ["/relations/a member_duplicate"]),
            (#"{"relations":{"a\u0000":"b"}}"#, .invalidRequest, ["/relations/a\0 member_type"]),
            (
                #"{"relations":{"\#(String(repeating: "é", count: 101))":"b"}}"#, .validationFailed,
                ["/relations/\(String(repeating: "é", count: 101)) member_range"]
            ),
            (Self.relations(101), .validationFailed, ["/relations member_range"]),
            (#"{"name":"x"}"#, .validationFailed, ["/name member_unknown"]),
            (
                #"{"visibility":1,"colour":2}"#, .validationFailed,
                ["/visibility member_range", "/colour member_unknown"]
            ),
        ]
        try await fixture.whileNothingChanges {
            for (body, code, errors) in cases {
                let reply = try await fixture.operate(.PUT, fixture.admin + "/entity-types/note", body)
                expectProblem(reply, code, errors: errors)
            }
            let long = String(repeating: "a", count: 65)
            for name in ["Task", "1a", "a%20b", "%C3%A9", "a.b", long] {
                let path = fixture.admin + "/entity-types/" + name
                expectProblem(try await fixture.operate(.GET, path), .notFound, errors: [])
                expectProblem(try await fixture.operate(.PUT, path, "{}"), .notFound, errors: [])
            }
            let elsewhere = "/admin/organizations/\(UUID().lowercased)"
            expectProblem(
                try await fixture.operate(.PUT, elsewhere + "/entity-types/task", "{}"),
                .notFound,
                errors: []
            )
            expectProblem(try await fixture.operate(.GET, elsewhere + "/entity-types/task"), .notFound, errors: [])
            let user = elsewhere + "/users/\(UUID().lowercased)"
            expectProblem(try await fixture.operate(.PUT, user), .notFound, errors: [])
            expectProblem(try await fixture.operate(.DELETE, user), .notFound, errors: [])
            expectProblem(try await fixture.operate(.PUT, fixture.admin + "/users/ada"), .notFound, errors: [])
            expectProblem(try await fixture.operate(.DELETE, fixture.admin + "/users/\(UUID().lowercased)"), .notFound)
            let delete = try await fixture.operate(.DELETE, fixture.admin + "/entity-types/task")
            expectProblem(delete, .methodNotAllowed)
            #expect(delete.header("allow") == ["GET, PUT, HEAD"])
        }
    }
}
