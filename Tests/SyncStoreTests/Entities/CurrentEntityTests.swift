import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncModel
import TestSupport
import Testing

@testable import SyncStore

/// A discard or `server_wins` returns the current entity, because the feed does not deliver it again.
@Suite struct CurrentEntityTests {
    /// A built-in document that Ada created and Bob then changed: version 2, of which Ada's phone has version 1.
    private static func fixture() async throws -> (ada: Phone, bob: Phone, id: String) {
        let ada = try await Phone.new()
        let bob = Phone(ada.gateway, ada.organization)
        let id = try #require(try await ada.push([ada.create(payload: #"{"n":1}"#)]).results[0].serverID)
        try await bob.push([bob.entry("update", server: #""\#(id)""#, payload: #"{"bob":1}"#)])
        return (ada, bob, id)
    }

    private static func current(_ result: JSONValue?) -> String {
        guard let current = result?["error"]?["current"] else { return "-" }
        return "\(current["version"]?.text ?? "") \(current["document"]?.text ?? "")"
    }

    @Test(arguments: [nil, DependantsChoice.discard, .keep])
    func `a discarded mutation shows the entity's current state`(_ choice: DependantsChoice?) async throws {
        let (ada, bob, id) = try await Self.fixture()
        let conflict = ada.entry("update", server: #""\#(id)""#, payload: "{}", extra: ["base_version": "1"])
        let dependant = ada.entry("update", server: #""\#(id)""#, payload: "{}")
        let other = ada.create()
        try await ada.push(choice == nil ? [conflict, other] : [conflict, dependant, other])
        #expect(Self.current(try await ada.read(conflict.id)) == #"2 {"n":1,"bob":1}"#)
        try await bob.push([bob.entry("replace", server: #""\#(id)""#, payload: #"{"late":1}"#)])
        let discarded = try #require(try await ada.discard(conflict.id, choice))
        #expect(discarded.code == "conflict" && Self.current(discarded) == #"3 {"late":1}"#)
        #expect(Self.current(try await ada.read(conflict.id)) == #"3 {"late":1}"#)
        if choice == .discard {
            let given = try await ada.read(dependant.id)
            #expect(given.status == "discarded" && given.code == "discarded")
            #expect(Self.current(given) == #"3 {"late":1}"#)
            // a repeated push receives the current entity, too
            #expect(Self.current(try await ada.push([dependant]).results.first) == #"3 {"late":1}"#)
        }
        // a create that never succeeded has no current entity
        let gone = try #require(try await ada.discard(other.id))
        #expect(gone["error"]?.isNull == true && gone.status == "discarded")
        #expect(try await ada.disorder() == [])
    }

    @Test func `a mutation discarded by an operator shows the current entity too`() async throws {
        let (ada, _, id) = try await Self.fixture()
        let conflict = ada.entry("delete", server: #""\#(id)""#, extra: ["base_version": "1"])
        try await ada.push([conflict])
        let body = Array(#"{"filter":{"status":"conflict"}}"#.utf8)
        let request = try BulkRequest(body: body, limit: 65_536, for: .discard)
        _ = try await ada.gateway.store.settling.discard(request, organization: ada.organization)
        #expect(Self.current(try await ada.read(conflict.id)) == #"2 {"n":1,"bob":1}"#)
    }

    @Test func `resolving with server_wins shows the entity's current state`() async throws {
        let (ada, bob, id) = try await Self.fixture()
        let conflict = ada.entry("update", server: #""\#(id)""#, payload: "{}", extra: ["base_version": "1"])
        try await ada.push([conflict])
        try await bob.push([bob.entry("delete", server: #""\#(id)""#)])
        let result = try #require(try await ada.resolve(conflict.id, "server_wins"))
        #expect(result["version"]?.int64 == 3 && Self.current(result) == "3 null")
        #expect(result["error"]?["current"]?["deleted"]?.bool == true)
    }

    /// The current entity is added to a discarded mutation when that mutation is read, and is not stored with each
    /// mutation.
    @Test func `discarding many mutations of a large document copies the document once`() async throws {
        let ada = try await Phone.new(#"{"on_conflict":"continue"}"#)
        let bob = Phone(ada.gateway, ada.organization)
        let id = try #require(try await ada.push([ada.create()]).results[0].serverID)
        // random text, which does not compress
        let text = (0..<4_000).map { _ in UUID().lowercased }.joined()
        try await bob.push([bob.entry("replace", server: #""\#(id)""#, payload: #"{"text":"\#(text)"}"#)])
        var entries = [ada.entry("update", server: #""\#(id)""#, payload: "{}", extra: ["base_version": "1"])]
        for _ in 0..<24 { entries.append(ada.entry("update", server: #""\#(id)""#, payload: "{}")) }
        try await ada.push(entries)
        let before = try await ada.changePosition
        let discarded = try #require(try await ada.discard(entries[0].id, .discard))
        #expect(discarded.discardedIDs.count == 25)
        #expect(try await ada.changePosition > before)
        let rows = try await ada.gateway.read("SELECT sum(octet_length(error::text))::int8 FROM mutations")
        #expect(try rows.read(0, 0, as: Int64.self) < 2 * Int64(text.utf8.count))
        for entry in entries {
            #expect(try await ada.read(entry.id)["error"]?["current"]?["document"]?["text"]?.string == text)
        }
        #expect(try await ada.disorder() == [])
    }

    /// Each mutation's entity is found by key, even with a plan that was made for tables of another size.
    @Test(.onOneServer("plans of one server"), arguments: [false, true])
    func `looks up the current entity by index`(_ isAnalyzed: Bool) async throws {
        let phone = try await Phone.new()
        let connection = try await phone.gateway.database.connect(settings: Store.pooledSettings)
        defer { connection.close() }
        _ = try await connection.run(Query.planByIndex)
        try await connection.execute(script: "PREPARE looked AS \(SettleStatements.current.sql)")
        let entries = (0..<20).map { _ in phone.create() }
        try await phone.push(entries)
        for _ in 0..<10 { try await phone.push((0..<100).map { _ in phone.create() }) }
        for table in isAnalyzed ? ["mutations", "entities", "id_mappings"] : [] {
            try await connection.execute(script: "ANALYZE \(table)")
        }
        let ids = entries.map { "'\($0.id)'" }.joined(separator: ",")
        let plan = try await connection.explain(
            "looked('\(phone.organization.id)', '\(phone.user)', ARRAY[\(ids)]::uuid[], 1000000, 1000000)",
            [.planByIndex]
        )
        for table in ["mutations", "entities", "id_mappings", "local_ids"] {
            #expect(!plan.contains("Seq Scan on \(table)"), "\(plan)")
        }
        #expect(plan.contains("Index Scan using entities") && plan.contains("(actual rows=20 loops=1)"), "\(plan)")
        #expect(!plan.contains("Hash Join") && !plan.contains("Merge Join"), "\(plan)")
    }

    // MARK: - Forwarded types

    /// Contact 7 of a forwarded type in the feed.
    private static func put(_ phone: Phone, by writer: Phone, version: Int64, _ document: String) async throws {
        try await phone.execute(
            """
            UPDATE feeds SET last_position = last_position + 1 WHERE organization_id = '\(phone.organization.id)';
            INSERT INTO entities (organization_id, entity_type, id, id_is_integer, version, is_deleted, document,
                feed_position, owner_id, updated_by, updated_on, run_base, created_at, updated_at, etag)
            SELECT '\(phone.organization.id)', 'task', '7', true, \(version), false, '\(document)', f.last_position,
                '\(writer.user)', '\(writer.user)', '\(writer.device)', \(version - 1), now(),
                '\(phone.gateway.clock.now.rfc3339)', 'e\(version)'
            FROM feeds f WHERE f.organization_id = '\(phone.organization.id)'
            ON CONFLICT (organization_id, entity_type, id) DO UPDATE SET version = excluded.version,
                document = excluded.document, updated_by = excluded.updated_by, updated_on = excluded.updated_on,
                run_base = excluded.run_base, updated_at = excluded.updated_at, etag = excluded.etag
            """
        )
    }

    private func pending(_ phone: Phone, current: String?) async throws -> Entry {
        let entry = phone.forward("update", server: "7")
        try await phone.push([entry])
        try await phone.conflict(entry.id, current: current)
        return entry
    }

    @Test func `adopts the upstream's document unless the feed has a later write`() async throws {
        for isLate in [false, true] {
            let ada = try await Phone.forwarding(visibility: "organization")
            let bob = Phone(ada.gateway, ada.organization)
            try await Self.put(ada, by: bob, version: 3, #"{"id":7,"n":3}"#)
            let document = #"{"id":7,"n":9}"#
            let reported = #"{"id":7,"version":null,"etag":"e9","deleted":false,"document":\#(document)}"#
            let conflict = try await pending(ada, current: reported)
            ada.gateway.clock.advance(seconds: 5)
            if isLate { try await Self.put(ada, by: bob, version: 4, #"{"id":7,"n":4}"#) }
            let result = try #require(try await ada.resolve(conflict.id, "server_wins"))
            let expected = isLate ? #"4 {"id":7,"n":4}"# : #"4 {"id":7,"n":9}"#
            #expect(result.status == "discarded" && Self.current(result) == expected && result.version == 4)
            let change = try #require(try await ada.pull().first)
            #expect("\(change["version"]?.text ?? "") \(change["document"]?.text ?? "")" == expected)
            #expect(change["etag"]?.string == (isLate ? "e4" : "e9"))
            #expect(try await ada.disorder() == [])
        }
    }

    /// Clocks cannot decide which write is newer. Another lane's write may be recorded at the same time as this lane's
    /// answer, and two gateways have two clocks.
    @Test func `a write during the upstream's answer is newer, independent of the clocks`() async throws {
        for seen in [0, 3, 4] {
            let ada = try await Phone.forwarding(visibility: "organization")
            let bob = Phone(ada.gateway, ada.organization)
            try await Self.put(ada, by: bob, version: 4, #"{"id":7,"n":4,"o":4}"#)
            let reported = #"{"id":7,"version":null,"feed_version":\#(seen),"etag":"e9","deleted":false,"document":"#
            // `client_wins` does not send overwritten values again either
            let carl = Phone(ada.gateway, ada.organization)
            let winning = try await pending(carl, current: reported + #"{"id":7,"n":9}}"#)
            _ = try await carl.resolve(winning.id, "client_wins")
            #expect(try await carl.column("sent_method", of: winning.id) == (seen == 4 ? "PUT" : "PATCH"))
            let conflict = try await pending(ada, current: reported + #"{"id":7,"n":9}}"#)
            let result = try #require(try await ada.resolve(conflict.id, "server_wins"))
            #expect(Self.current(result) == (seen == 4 ? #"5 {"id":7,"n":9}"# : #"4 {"id":7,"n":4,"o":4}"#))
            #expect(try await ada.disorder() == [])
        }
    }

    @Test func `does not adopt a version that the feed already has`() async throws {
        let ada = try await Phone.forwarding(visibility: "organization")
        let bob = Phone(ada.gateway, ada.organization)
        try await Self.put(ada, by: bob, version: 5, #"{"id":7,"n":5}"#)
        let old = #"{"entity_type":"task","id":7,"version":3,"etag":"e3","deleted":false,"document":{"id":7,"n":3}}"#
        let conflict = try await pending(ada, current: old)
        let result = try #require(try await ada.resolve(conflict.id, "server_wins"))
        #expect(Self.current(result) == #"5 {"id":7,"n":5}"# && result.version == 5)
        #expect(try await ada.pull().first?["version"]?.int64 == 5)
    }

    @Test func `another user's private entity is never shown`() async throws {
        let ada = try await Phone.forwarding()
        let bob = Phone(ada.gateway, ada.organization)
        try await Self.put(ada, by: bob, version: 3, #"{"id":7,"secret":"s3cr3t"}"#)
        let reported = #"{"entity_type":"task","id":7,"version":null,"etag":null,"deleted":false,"document":{"id":7}}"#
        for current in [nil, reported] {
            let phone = Phone(ada.gateway, ada.organization)
            let resolved = try await phone.resolve(pending(phone, current: current).id, "server_wins")
            #expect(Self.current(resolved) == (current == nil ? "-" : #"null {"id":7}"#) && resolved?.version == nil)
            let other = Phone(ada.gateway, ada.organization)
            let given = try await other.discard(pending(other, current: nil).id)
            #expect(Self.current(given) == "-" && given?.text.contains("s3cr3t") == false)
        }
        #expect(try await bob.pull().first?["version"]?.int64 == 3)
    }
}

extension Phone {
    fileprivate var changePosition: Int64 {
        get async throws {
            try await gateway.read("SELECT change_position FROM lanes WHERE \(owner)").read(0, 0, as: Int64.self)
        }
    }
}
