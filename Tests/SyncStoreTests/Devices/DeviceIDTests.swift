import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import SyncStore

/// Pushes to types with device ids (specification 002, docs/spec).
@Suite struct DeviceIDTests {
    private func phones(_ count: Int = 1) async throws -> [Phone] {
        let gateway = try await Gateway()
        let organization = try await folderOrganization(gateway)
        return (0..<count).map { _ in Phone(gateway, organization) }
    }

    @Test func `a device references its entities by its own numbers`() async throws {
        let phone = try await phones()[0]
        let first = try await phone.push([
            phone.numbered("create", 23, "folder", payload: #"{"name":"Shopping list"}"#),
            phone.numbered("create", 47, payload: #"{"text":"Broccoli","folderId":23,"size":23}"#),
        ])
        #expect(first.results.map(\.status) == ["succeeded", "succeeded"])
        #expect(first.results.map { $0["local_id"]?.int64 } == [23, 47])
        let folder = try #require(first.results[0].serverID)
        let mappings = first["id_mappings"]?.elements.map { $0.map(\.text) }
        #expect(mappings?.count == 2)
        #expect(mappings?.first?.contains(#""client_id":23,"server_id":"\#(folder)","status":"resolved""#) == true)
        var changes = try await phone.pull()
        #expect(changes.last?["document"]?.text == #"{"text":"Broccoli","folderId":"\#(folder)","size":23}"#)
        #expect(changes.allSatisfy { $0["client_id"] == nil })

        let second = try await phone.push([
            phone.numbered("update", 47, payload: #"{"text":"Kale"}"#),
            phone.numbered("update", 47, payload: #"{"folderId":null}"#),
            phone.numbered("delete", 23, "folder"),
        ])
        #expect(second.results.map(\.status) == ["succeeded", "succeeded", "succeeded"])
        changes = try await phone.pull()
        #expect(changes.first?["document"]?.text == #"{"text":"Kale","size":23}"#)
        #expect(changes.last?["deleted"]?.bool == true)
    }

    @Test func `two devices use the same number for different entities`() async throws {
        let phones = try await phones(2)
        // the second device belongs to the same user as the first
        let tablet = Phone(phones[0].gateway, phones[0].organization, user: phones[0].user)
        for (phone, text) in [(phones[0], "Buy milk"), (phones[1], "Feed the cat"), (tablet, "Water plants")] {
            let answer = try await phone.push([phone.numbered("create", 1, payload: #"{"text":"\#(text)"}"#)])
            #expect(answer.results[0].status == "succeeded")
        }
        for (phone, text) in [(phones[0], "Buy oat milk"), (phones[1], "Feed the dog"), (tablet, "Sell plants")] {
            let answer = try await phone.push([phone.numbered("update", 1, payload: #"{"text":"\#(text)"}"#)])
            #expect(answer.results[0]["version"]?.int64 == 2)
        }
        let texts = try await phones[0].pull().map { $0["document"]?["text"]?.string }
        #expect(texts == ["Buy oat milk", "Feed the dog", "Sell plants"])
    }

    @Test func `relations contain arrays and nulls and may reference the mutation's own entity`() async throws {
        let phone = try await phones()[0]
        let answer = try await phone.push([
            phone.numbered("create", 1, payload: "{}"), phone.numbered("create", 2, payload: #"{"related":[]}"#),
            phone.numbered("create", 3, payload: #"{"related":[2, 1,null, 3],"folderId":null}"#),
            phone.numbered("create", 7, "folder", payload: #"{"parentId":7}"#),
        ])
        let ids = answer.results.compactMap(\.serverID)
        try #require(ids.count == 4)
        let changes = try await phone.pull()
        let related = #"{"related":["\#(ids[1])", "\#(ids[0])",null, "\#(ids[2])"],"folderId":null}"#
        #expect(changes[2]["document"]?.text == related)
        #expect(changes[3]["document"]?.text == #"{"parentId":"\#(ids[3])"}"#)
    }

    @Test func `numbers are any 64-bit integers`() async throws {
        let phone = try await phones()[0]
        let extremes: [Int64] = [.min, -1, 0, 1, .max]
        let created = try await phone.push(extremes.map { phone.numbered("create", $0) })
        #expect(created.results.map { $0["local_id"]?.int64 } == extremes)
        #expect(created.results.allSatisfy { $0.status == "succeeded" })
        let list = extremes.map(String.init).joined(separator: ",")
        let related = try await phone.push([phone.numbered("create", 5, payload: #"{"related":[\#(list)]}"#)])
        #expect(related.results[0].status == "succeeded")
        let document = try await phone.pull().last?["document"]?["related"]
        #expect(document?.elements?.compactMap(\.string) == created.results.compactMap(\.serverID))
        for number in ["9223372036854775808", "-9223372036854775809", "1.5", "1e30"] {
            var entry = phone.entry("create")
            entry.extra["local_id"] = number
            let answer = try await phone.push([entry])
            #expect(answer.results[0].rules == ["client_id_uuid_format"], "\(number)")
            let relation = try await phone.push([phone.numbered("create", 9, payload: #"{"related":\#(number)}"#)])
            #expect(relation.results[0].rules == ["client_id_uuid_format"], "\(number)")
        }
    }

    // MARK: - Refusals

    @Test func `refuses unknown references and stores nothing`() async throws {
        let phone = try await phones()[0]
        let cases: [(entry: Entry, code: String, rule: String, pointer: String)] = [
            (
                phone.numbered("create", 1, payload: #"{"folderId":99}"#), "validation_failed",
                "entity_reference_must_exist", "/payload/folderId"
            ),
            (
                phone.numbered("create", 2, payload: #"{"related":[2,98]}"#), "validation_failed",
                "entity_reference_must_exist", "/payload/related/1"
            ),
            // the entity is created later in the push
            (
                phone.numbered("create", 3, payload: #"{"folderId":1}"#), "validation_failed",
                "dependency_ids_must_exist_in_queue", "/payload/folderId"
            ),
            (phone.numbered("update", 50), "validation_failed", "entity_reference_must_exist", "/local_id"),
            (
                phone.numbered("create", 4, payload: #"{"folderId":{"id":1}}"#), "validation_failed",
                "client_id_uuid_format", "/payload/folderId"
            ),
            (
                phone.numbered("create", 4, payload: #"{"gone":1}"#), "validation_failed", "entity_type_valid_enum",
                "/payload/gone"
            ),
        ]
        let answer = try await phone.push(cases.map(\.entry) + [phone.numbered("create", 1, "folder")])
        for (result, expected) in zip(answer.results, cases) {
            #expect(result.status == "rejected")
            #expect(result.code == expected.code)
            #expect(result.rules == [expected.rule], "\(result.text)")
            #expect(result["error"]?.value(at: "/errors/0/pointer")?.string?.hasSuffix(expected.pointer) == true)
        }
        #expect(answer.results.last?.status == "succeeded")
        #expect(try await phone.pull().count == 1)
        // the number of another type
        #expect(try await phone.push([phone.numbered("update", 1)]).results[0].status == "rejected")
        #expect(try await phone.gateway.rows("SELECT count(*)::text FROM local_ids") == ["1"])
    }

    @Test func `rejects the dependents of a rejected create`() async throws {
        let phone = try await phones()[0]
        var broken = phone.numbered("create", 1, "folder")
        broken.extra["max_attempts"] = "0"
        let answer = try await phone.push([
            broken, phone.numbered("create", 1, payload: #"{"folderId":1}"#), phone.numbered("update", 1, "folder"),
        ])
        #expect(answer.results.map(\.code) == ["validation_failed", "dependency_rejected", "dependency_rejected"])
    }

    @Test func `refuses an ID whose form does not fit its type`() async throws {
        let phone = try await phones()[0]
        let uuid = phone.create("task")
        let number = phone.numbered("create", 1, "contact")
        let shared = phone.numbered("create", 1, "tag")
        let text = phone.entry("create", extra: ["local_id": #""one""#])
        let answer = try await phone.push([uuid, number, shared, text])
        #expect(answer.results.map(\.rules) == Array(repeating: ["client_id_uuid_format"], count: 4))
        #expect(answer.results[0]["error"]?["detail"]?.string?.contains("device ids") == true)
    }

    @Test func `refuses a second create of a number`() async throws {
        let phone = try await phones()[0]
        let first = phone.numbered("create", 1, payload: #"{"n":1}"#)
        try await phone.push([first])
        let answer = try await phone.push([
            first, phone.numbered("create", 1, payload: #"{"n":2}"#), phone.numbered("create", 2),
            phone.numbered("create", 2), phone.numbered("create", 1, "folder"),
        ])
        #expect(answer.results.map(\.status) == ["succeeded", "rejected", "succeeded", "rejected", "succeeded"])
        #expect(answer.results[0].isReplayed == true)
        for refused in [answer.results[1], answer.results[3]] {
            #expect(refused.rules == ["unique_client_id_per_entity_type"])
        }
        #expect(try await phone.pull().first?["document"]?["n"]?.int64 == 1)
    }

    @Test func `refuses more IDs than the look-up limit`() async throws {
        let phone = try await phones()[0]
        try await phone.push([phone.numbered("create", 1)])
        func list(_ count: Int) -> String { Array(repeating: "1", count: count).joined(separator: ",") }
        let answer = try await phone.push([
            phone.numbered("create", 2, payload: #"{"related":[\#(list(1_001))]}"#),
            phone.numbered("create", 3, payload: #"{"related":[\#(list(1_000))]}"#),
        ])
        #expect(answer.results.map(\.status) == ["rejected", "succeeded"])
        #expect(answer.results[0].rules == ["member_range"])
        let many = try await phone.push(
            (0..<21).map { phone.numbered("create", 100 + $0, payload: #"{"related":[\#(list(1_000))]}"#) }
        )
        #expect(many.results.filter { $0.status == "rejected" }.count == 1)
        #expect(many.results.last?.rules == ["member_range"])
    }

    // MARK: - Repeats, several types

    @Test func `a repeat may reference its entity by the server's ID`() async throws {
        let phone = try await phones()[0]
        let created = try await phone.push([phone.numbered("create", 1)])
        let id = try #require(created.results[0].serverID)
        var update = phone.numbered("update", 1, payload: #"{"a":1}"#)
        try await phone.push([update])
        update.extra["local_id"] = nil
        update.server = #""\#(id)""#
        #expect(try await phone.push([update]).results[0].isReplayed == true)
        update.server = #""\#(UUID().lowercased)""#
        #expect(try await phone.push([update]).results[0].code == "idempotency_key_reused")
        // both ids of one entity, and ids of two different entities
        var both = phone.numbered("update", 1, payload: #"{"a":2}"#)
        both.server = #""\#(id)""#
        #expect(try await phone.push([both]).results[0].status == "succeeded")
        var torn = phone.numbered("update", 1, payload: #"{"a":3}"#)
        torn.server = #""\#(UUID().lowercased)""#
        #expect(try await phone.push([torn]).results[0].rules == ["entity_reference_must_exist"])
    }

    @Test func `entities of all ID spaces can reference each other`() async throws {
        let phone = try await phones()[0]
        let (contact, tag) = (UUID(), UUID())
        let tagEntry = phone.entry("create", "tag", server: #""\#(tag.lowercased)""#)
        let answer = try await phone.push([
            phone.create("contact", local: contact), tagEntry,
            phone.numbered(
                "create",
                1,
                payload: #"{"contactId":"\#(contact.lowercased)","tagIds":["\#(tag.lowercased)",5],"at":1}"#
            ),
            phone.create("note", payload: #"{"taskId":1,"n":1}"#),
        ])
        #expect(answer.results.map(\.status) == Array(repeating: "succeeded", count: 4))
        let changes = try await phone.pull()
        let contactID = try #require(answer.results[0].serverID)
        let task = try #require(answer.results[2].serverID)
        let expected = #"{"contactId":"\#(contactID)","tagIds":["\#(tag.lowercased)",5],"at":1}"#
        #expect(changes[2]["document"]?.text == expected)
        #expect(changes[3]["document"]?.text == #"{"taskId":"\#(task)","n":1}"#)
        #expect(try await phone.gateway.rows("SELECT entity_type FROM id_mappings ORDER BY 1") == ["contact", "note"])
    }

    @Test func `another user and another organization have separate numbers`() async throws {
        let gateway = try await Gateway()
        let (home, away) = (try await folderOrganization(gateway), try await folderOrganization(gateway))
        let device = Phone(gateway, home)
        try await device.push([device.numbered("create", 1, payload: #"{"of":"home"}"#)])
        // the same device id under another user, and in another organization
        for (organization, user) in [(home, UUID()), (away, device.user)] {
            let body = """
                {"device_id":"\(device.device.lowercased)","mutations":[\
                \(device.numbered("update", 1, payload: "{}").json),\
                \(device.numbered("create", 2, payload: #"{"related":1}"#).json)]}
                """
            let push = try PushRequest(body: Array(body.utf8), limits: IntakeLimits())
            let answer = try await gateway.store.pushes.submit(
                push,
                organization: organization,
                user: user,
                isStrict: false
            )
            let results = try JSONTree(parsing: answer.json()).root.results
            #expect(results.map(\.rules) == Array(repeating: ["entity_reference_must_exist"], count: 2))
        }
        #expect(try await device.pull().map { $0["version"]?.int64 } == [1])
    }
}
