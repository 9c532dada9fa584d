import Foundation
import JSONText
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import SyncStore

/// The tables of specification 002 (docs/spec), from push to pull.
@Suite struct SeedTablesTests {
    private func pull(_ phone: Phone, _ counters: String, since: String? = nil) async throws -> JSONValue {
        let since = since.map { #""\#($0)""# } ?? "null"
        let body = #"{"since":\#(since),"next_local_ids":\#(counters)}"#
        let page = try await phone.gateway.store.pulls.pull(
            PullRequest(body: Array(body.utf8), limit: 65_536),
            device: phone.device,
            organization: phone.organization,
            user: phone.user
        )
        return try JSONTree(parsing: page.json()).root
    }

    private func table(_ page: JSONValue, _ type: String, _ members: [StaticString]) -> [String] {
        page.changes
            .filter { $0["entity_type"]?.string == type }
            .map { change in
                let values = members.map { change["document"]?[$0]?.text ?? "-" }
                return ([change["local_id"]?.text ?? "-"] + values).joined(separator: " | ")
            }.sorted()
    }

    /// "The two tasks have the same ID 1 locally … each device added a task with the next locally available ID."
    @Test func `two devices add two tasks with the same local ID`() async throws {
        let gateway = try await Gateway()
        let organization = try await folderOrganization(gateway)
        let (alice, bob) = (Phone(gateway, organization), Phone(gateway, organization))
        try await alice.push([alice.numbered("create", 1, payload: #"{"text":"Buy milk"}"#)])
        try await bob.push([bob.numbered("create", 1, payload: #"{"text":"Feed the cat"}"#)])
        let onA = try await pull(alice, #"{"task":2}"#)
        let onB = try await pull(bob, #"{"task":2}"#)
        #expect(table(onA, "task", ["text"]) == [#"1 | "Buy milk""#, #"2 | "Feed the cat""#])
        #expect(table(onB, "task", ["text"]) == [#"1 | "Feed the cat""#, #"2 | "Buy milk""#])
        #expect(onA["next_local_ids"]?.text == #"{"task":3}"#)
        // each device references the other device's task by its own number 2, without another pull
        try await alice.push([alice.numbered("update", 2, payload: #"{"text":"Feed the cats"}"#)])
        try await bob.push([bob.numbered("update", 2, payload: #"{"text":"Buy oat milk"}"#)])
        let texts = try await alice.pull().map { $0["document"]?["text"]?.string }
        #expect(texts == ["Feed the cats", "Buy oat milk"])
        #expect(try await gateway.rows("SELECT count(*)::text FROM local_ids") == ["4"])
    }

    /// "The following table shows the same Task object on two separate devices": 47 in folder 23, 81 in folder 104.
    @Test func `two devices have the same task and folder under different IDs`() async throws {
        let gateway = try await Gateway()
        let organization = try await folderOrganization(gateway)
        let (alice, bob) = (Phone(gateway, organization), Phone(gateway, organization))
        try await alice.push([
            alice.numbered("create", 23, "folder", payload: #"{"text":"Shopping list"}"#),
            alice.numbered("create", 47, payload: #"{"text":"Broccoli","folderId":23}"#),
        ])
        let onA = try await pull(alice, #"{"task":48,"folder":24}"#)
        let onB = try await pull(bob, #"{"task":81,"folder":104}"#)
        #expect(table(onA, "task", ["text", "folderId"]) == [#"47 | "Broccoli" | 23"#])
        #expect(table(onB, "task", ["text", "folderId"]) == [#"81 | "Broccoli" | 104"#])
        #expect(table(onB, "folder", ["text"]) == [#"104 | "Shopping list""#])
        // B moves the task to folder 105 of B, and A receives that folder under A's next number
        try await bob.push([
            bob.numbered("create", 105, "folder", payload: #"{"text":"Weekend"}"#),
            bob.numbered("update", 81, payload: #"{"folderId":105}"#),
        ])
        let moved = try await pull(alice, #"{"task":48,"folder":24}"#, since: onA["next"]?.string)
        #expect(table(moved, "task", ["text", "folderId"]) == [#"47 | "Broccoli" | 24"#])
        #expect(table(moved, "folder", ["text"]) == [#"24 | "Weekend""#])
    }
}
