import Foundation
import GatewaySupport
import JSONText
import SyncModel
import TestSupport
import Testing

/// A push of a few bytes may patch megabytes of stored documents.
@Suite struct LargeDocumentTests {
    /// Documents, each slightly smaller than a mebibyte.
    private static func documents(_ count: Int, _ fixture: TwoTenantFixture) async throws -> [String] {
        let reply = try await fixture.ada.push((0..<count).map { _ in fixture.ada.create() })
        try await fixture.execute("UPDATE entities SET document = json_build_object('long', repeat('x', 1040000))")
        return reply.results.compactMap { $0["server_id"]?.string }
    }

    @Test func `commits a push with large patches in a separate transaction`() async throws {
        let fixture = try await TwoTenantFixture()
        let ids = try await Self.documents(2, fixture)
        let patches = [ids[0], ids[1], ids[0]].map { fixture.ada.change(server: $0) }
        #expect(try await fixture.ada.push(patches).statuses == ["succeeded", "succeeded", "succeeded"])
        try await fixture.reaches(#"sluice_commit_group_retries_total{reason="heavy"} 1"#)
        #expect(try await fixture.ada.push(patches).results.map { $0["replayed"]?.bool } == [true, true, true])
        // whole documents and deletions are not merged with stored documents
        let rest = [fixture.ada.change("replace", server: ids[0]), fixture.ada.change("delete", server: ids[1])]
        #expect(try await fixture.ada.push(rest).statuses == ["succeeded", "succeeded"])
        try await fixture.reaches(#"sluice_commit_group_retries_total{reason="heavy"} 1"#)
        let changes = try await fixture.ada.get("/v1/changes").changes
        #expect(changes.map { $0["version"]?.int64 } == [4, 3])
        #expect(changes.first?["document"]?.members?.map { $0.name.string } == ["title"])
    }

    @Test func `light pushes are served while heavy pushes are committed`() async throws {
        let fixture = try await TwoTenantFixture()
        let ids = try await Self.documents(4, fixture)
        let more = try await fixture.bob.push([fixture.bob.create()]).results.compactMap { $0["server_id"]?.string }
        async let heavy = fixture.ada.push(ids.map { fixture.ada.change(server: $0) })
        async let light = fixture.bob.push([fixture.bob.change(server: more[0])])
        async let stranger = fixture.eve.push([fixture.eve.create()])
        #expect(try await heavy.statuses == Array(repeating: "succeeded", count: 4))
        #expect(try await light.statuses == ["succeeded"])
        #expect(try await stranger.statuses == ["succeeded"])
    }

    /// A client id for which the server has an id of 200 quotation marks, which have 402 bytes as JSON.
    private static func longID(_ fixture: TwoTenantFixture) async throws -> String {
        let draft = fixture.ada.create()
        #expect(try await fixture.ada.push([draft]).statuses == ["succeeded"])
        try await fixture.execute("UPDATE id_mappings SET server_id = repeat('\"', 200)")
        return try #require(draft["local_id"])
    }

    private static func payload(_ id: String, _ count: Int) -> String {
        #"{"r":[\#(Array(repeating: id, count: count).joined(separator: ","))]}"#
    }

    @Test func `a document that server ids make too large fails with 413`() async throws {
        let fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#)
        let id = try await Self.longID(fixture)
        let small = (0..<2).map { _ in fixture.ada.create("task", local: UUID(), Self.payload(id, 2_000)) }
        let stored = try await fixture.ada.push(small)
        #expect(stored.statuses == ["succeeded", "succeeded"])
        let servers = stored.results.compactMap { $0["server_id"]?.string }
        let large = Self.payload(id, 3_000)
        let drafts = [
            fixture.ada.create("task", local: UUID(), large),
            fixture.ada.change("replace", server: servers[0]).with(["payload": large]),
            fixture.ada.change(server: servers[1]).with(["payload": large]),
        ]
        for path in ["/v1/mutations/preview", "/v1/mutations"] {
            let reply = try await fixture.ada.post(path, fixture.ada.envelope(drafts))
            #expect(reply.statuses == ["failed", "failed", "failed"], "\(path): \(reply.text.prefix(500))")
            #expect(reply.results.allSatisfy { $0["response"]?["status"]?.int64 == 413 }, "\(path)")
        }
        let longest = try await fixture.lines("SELECT max(octet_length(document::text))::text FROM entities")
        #expect(Int(longest.first ?? "") ?? .max <= 1_048_576)
    }

    @Test func `a push whose documents server ids make too large gets 413 before they are made`() async throws {
        let fixture = try await TwoTenantFixture()
        let id = try await Self.longID(fixture)
        let drafts = (0..<50).map { _ in fixture.ada.create("task", local: UUID(), Self.payload(id, 2_000)) }
        for path in ["/v1/mutations", "/v1/mutations/preview"] {
            let reply = try await fixture.ada.post(path, fixture.ada.envelope(drafts))
            expectProblem(reply, .payloadTooLarge, errors: [])
        }
        // a preview may make fewer bytes of documents than a push
        let part = Array(drafts.prefix(15))
        let preview = try await fixture.ada.post("/v1/mutations/preview", fixture.ada.envelope(part))
        expectProblem(preview, .payloadTooLarge, errors: [])
        #expect(try await fixture.ada.push(part).statuses == Array(repeating: "succeeded", count: 15))
    }

    @Test func `rejects a push whose patches exceed one statement and accepts its parts`() async throws {
        let fixture = try await TwoTenantFixture()
        let ids = try await Self.documents(40, fixture)
        let patches = ids.map { fixture.ada.change(server: $0) }
        expectProblem(try await fixture.ada.push(patches), .payloadTooLarge, errors: [])
        expectProblem(try await fixture.ada.push(patches, prefer: "handling=strict"), .payloadTooLarge, errors: [])
        for part in [patches.prefix(20), patches.suffix(20)] {
            #expect(try await fixture.ada.push(Array(part)).statuses == Array(repeating: "succeeded", count: 20))
        }
        #expect(try await fixture.ada.push(patches).results.allSatisfy { $0["replayed"]?.bool == true })
    }
}
