import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// The reads, stored data and response of a request are limited, even if a few kilobytes concern a document of a
/// megabyte.
@Suite struct BoundedAnswerTests {
    /// An entity slightly smaller than a mebibyte, at version 3.
    private static func document(_ fixture: TwoTenantFixture) async throws -> String {
        let made = try await fixture.ada.push([fixture.ada.create()])
        let server = try #require(made.results[0]["server_id"]?.string)
        try await fixture.execute("UPDATE entities SET document = json_build_object('long', repeat('x', 1040000))")
        for _ in 0..<2 {
            #expect(try await fixture.bob.push([fixture.bob.change(server: server)]).statuses == ["succeeded"])
        }
        return server
    }

    private static func stale(_ fixture: TwoTenantFixture, _ server: String, _ count: Int, _ strategy: String)
        -> [Draft]
    {
        (0..<count).map { _ in
            fixture.ada.change(server: server, base: 1).with(["conflict_resolution": #""\#(strategy)""#])
        }
    }

    /// The size of all stored errors, in bytes.
    private static func storedBytes(_ fixture: TwoTenantFixture) async throws -> Int {
        let lines = try await fixture.lines("SELECT coalesce(sum(octet_length(error::text)), 0)::text FROM mutations")
        return try #require(lines.first.flatMap { Int($0) })
    }

    private func expectOnce(_ reply: Reply, _ errors: [JSONValue?]) {
        #expect(reply.body.count < 2_500_000)
        #expect(errors.first??["current"]?["document"]?["long"] != nil)
        for error in errors.dropFirst() {
            #expect(error?["current"] == nil)
            #expect(error?["current_at"]?.string == "/results/0/error/current")
        }
    }

    @Test func `a preview of 500 stale updates contains their entity once`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try await Self.document(fixture)
        let drafts = Self.stale(fixture, server, 500, "server_wins")
        let reply = try await fixture.ada.post("/v1/mutations/preview", fixture.ada.envelope(drafts))
        #expect(reply.status == 200)
        #expect(reply.results.count == 500)
        expectOnce(reply, reply.results.map { $0["error"] })
    }

    @Test func `a push of 500 stale updates stores and returns their entity once`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try await Self.document(fixture)
        let drafts = Self.stale(fixture, server, 500, "server_wins")
        let reply = try await fixture.ada.push(drafts)
        #expect(reply.statuses == Array(repeating: "discarded", count: 500))
        expectOnce(reply, reply.results.map { $0["error"] })
        #expect(try await Self.storedBytes(fixture) < 2_500_000)
        let repeated = try await fixture.ada.push(drafts)
        #expect(repeated.results.allSatisfy { $0["replayed"]?.bool == true })
        expectOnce(repeated, repeated.results.map { $0["error"] })
        // each mutation returns the entity when it is read alone
        let last = try await fixture.ada.get("/v1/mutations/\(drafts[499].id)")
        #expect(last.json?["error"]?["current"]?["version"]?.int64 == 3)
        #expect(last.json?["error"]?["current"]?["document"]?["long"] != nil)
        #expect(last.json?["error"]?["current_omitted"] == nil)
        // a page of the list contains the entity at most once
        let page = try await fixture.ada.get("/v1/mutations?limit=50")
        #expect(page.mutations.filter { $0["error"]?["current"] != nil }.count == 1)
    }

    @Test func `updates that override another state each store one state of the entity`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try await Self.document(fixture)
        let reply = try await fixture.ada.push(Self.stale(fixture, server, 20, "client_wins"))
        #expect(reply.statuses == Array(repeating: "succeeded", count: 20))
        #expect(reply.body.count < 2_500_000)
        #expect(try await Self.storedBytes(fixture) < 2_500_000)
        let shown = reply.results.compactMap { $0["error"] }.filter { !$0.isNull }
        #expect(shown.filter { $0["current"] != nil }.count == 1)
        #expect(shown.dropFirst().allSatisfy { $0["current_omitted"]?.bool == true || $0["current_at"] != nil })
    }

    @Test func `repeats with large stored errors are answered within the limit`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try await Self.document(fixture)
        let other = try #require(
            try await fixture.ada.push([fixture.ada.create()]).results[0]["server_id"]?.string
        )
        let drafts = Self.stale(fixture, server, 40, "server_wins")
        _ = try await fixture.ada.push(drafts)
        // earlier versions stored a separate copy of the entity with each mutation
        try await fixture.execute(
            """
            UPDATE mutations SET error = (
                SELECT json_build_object('type', 'urn:sluice:problem:conflict', 'title', 't', 'status', 409,
                    'code', 'conflict', 'detail', 'd', 'current', json_build_object('entity_type', 'task', 'id', id,
                    'version', 3, 'deleted', false, 'document', json_build_object('long', repeat('x', 1000000)))))
            WHERE status = 'discarded'
            """
        )
        let reply = try await fixture.ada.push(drafts + [fixture.ada.change(server: other)])
        #expect(reply.status == 200)
        #expect(reply.body.count < 4_000_000)
        #expect(reply.results.dropLast().allSatisfy { $0["replayed"]?.bool == true })
        #expect(reply.statuses.last == "succeeded")
        let omitted = reply.results.filter { $0["omitted"]?.elements.map { $0.compactMap(\.string) } == ["error"] }
        #expect(omitted.count > 30)
        #expect(omitted.allSatisfy { $0["error"]?.isNull == true })
        let one = try await fixture.ada.get("/v1/mutations/\(drafts[39].id)")
        #expect(one.json?["error"]?["current"] != nil)
    }

    @Test func `repeats and lists of mutations with many dependencies are answered within the limit`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try #require(try await fixture.ada.push([fixture.ada.create()]).results[0]["server_id"]?.string)
        #expect(try await fixture.bob.push([fixture.bob.change(server: server)]).statuses == ["succeeded"])
        let conflict = fixture.ada.change(server: server, base: 1)
        let blocking = (0..<300).map { _ in fixture.ada.change(server: server) }
        #expect(try await fixture.ada.push([conflict] + blocking).statuses[1...].allSatisfy { $0 == "blocked" })
        let ids = "[" + blocking.map { #""\#($0.id)""# }.joined(separator: ",") + "]"
        let drafts = (0..<300).map { _ in fixture.ada.create() }
        for start in stride(from: 0, to: 300, by: 60) {
            let part = drafts[start..<start + 60].map { $0.with(["dependency_ids": ids]) }
            let reply = try await fixture.ada.push(part)
            #expect(reply.statuses == Array(repeating: "blocked", count: 60))
            #expect(reply.results.allSatisfy { $0["blocked_by"]?.elements.map { Array($0).count } == 300 })
        }
        // the repeat names no dependency, and its first answers had 3.5 MB of ids
        let reply = try await fixture.ada.push(drafts)
        #expect(reply.results.allSatisfy { $0["replayed"]?.bool == true })
        #expect(reply.body.count < 2_500_000)
        let cut = reply.results.filter { $0["omitted"]?.elements.map { $0.compactMap(\.string) } == ["blocked_by"] }
        #expect(cut.count > 100)
        #expect(cut.allSatisfy { $0["blocked_by"]?.elements.map { Array($0).count } == WorkBounds.blockers })
        let one = try await fixture.ada.get("/v1/mutations/\(drafts[299].id)")
        #expect(one.json?["blocked_by"]?.elements.map { Array($0).count } == 300)
        #expect(one.json?["omitted"] == nil)
        for page in [
            "/v1/mutations", fixture.admin + "/mutations", fixture.admin + "/users/\(fixture.ada.user.lowercased)/lane",
        ] {
            let reply =
                page.hasPrefix("/v1")
                ? try await fixture.ada.get(page + "?limit=1000")
                : try await fixture.operate(.GET, page + "?limit=1000")
            #expect(reply.body.count < 2_500_000, "\(page)")
            #expect(reply.mutations.count > 50 && reply.json?["next"]?.string != nil, "\(page)")
            #expect(reply.mutations.allSatisfy { $0["omitted"] == nil }, "\(page)")
        }
        let backlog = try await fixture.ada.get("/v1/backlog")
        #expect(backlog.body.count < 20_000)
    }

    @Test func `pages of mutations with long headers and endpoints are bounded and complete`() async throws {
        let fixture = try await TwoTenantFixture()
        let drafts = (0..<60).map { _ in fixture.ada.create() }
        #expect(try await fixture.ada.push(drafts).statuses.count == 60)
        try await fixture.execute(
            """
            UPDATE mutations SET endpoint = '/tasks?' || repeat('q', 2000), headers = (
                SELECT json_object_agg('x-' || n, repeat('v', 4096)) FROM generate_series(1, 24) n)
            """
        )
        for (path, isOperators) in [("/v1/mutations", false), (fixture.admin + "/mutations", true)] {
            var (ids, cursor, pages) = ([String](), "", 0)
            repeat {
                let url = path + "?limit=1000" + cursor
                let reply = isOperators ? try await fixture.operate(.GET, url) : try await fixture.ada.get(url)
                #expect(reply.body.count < 2_200_000)
                ids += reply.mutations.compactMap { $0["id"]?.string }
                cursor = reply.json?["next"]?.string.map { "&cursor=" + $0 } ?? ""
                pages += 1
            } while !cursor.isEmpty && pages < 10
            #expect(pages == 3, "\(path)")
            #expect(ids == drafts.map(\.id), "\(path)")
        }
    }

    @Test func `a push with thousands of id mappings reserves memory for them before its commit`() async throws {
        let fixture = try await TwoTenantFixture { $0.heldAnswerBytes = 4_194_304 }
        var ids: [String] = []
        for _ in 0..<4 {
            let drafts = (0..<500).map { _ in fixture.ada.create() }
            #expect(try await fixture.ada.push(drafts).status == 200)
            ids += drafts.compactMap { $0["local_id"] }
        }
        let named = fixture.ada.create("task", local: UUID(), #"{"ids":[\#(ids.joined(separator: ","))]}"#)
        let reply = try await fixture.ada.push([named])
        #expect(reply.status == 200)
        #expect(reply.json?["id_mappings"]?.elements.map { Array($0).count } == 2_001)
        let push = try PushRequest(body: Array(fixture.ada.envelope([named]).utf8), limits: IntakeLimits())
        #expect(WorkCost.answer(to: push) > reply.body.count)
    }

    @Test func `a push of 4 MB of unknown members gets a limited list of errors`() async throws {
        let fixture = try await TwoTenantFixture()
        let members = (0..<300_000).map { #""m\#($0)":1"# }.joined(separator: ",")
        var draft = fixture.ada.create()
        let json = draft.json.dropLast() + "," + members + "}"
        let body = #"{"device_id":"\#(fixture.ada.device.lowercased)","mutations":[\#(json)]}"#
        let reply = try await fixture.ada.post("/v1/mutations", body)
        #expect(reply.statuses == ["rejected"])
        #expect(reply.body.count < 100_000)
        let error = try #require(reply.results[0]["error"])
        #expect(error.errors.count == ErrorBounds.perEntry)
        #expect(error["errors_omitted"]?.int64 == Int64(300_000 - ErrorBounds.perEntry))
        // a long name is shortened
        draft = fixture.ada.create().with([String(repeating: "n", count: 500_000): "1"])
        let long = try await fixture.ada.push([draft])
        #expect(long.body.count < 10_000)
        let errors = long.results[0]["error"]?["errors"]?.elements.map(Array.init) ?? []
        #expect(errors.first?["pointer"]?.string?.hasSuffix("…") == true)
    }

    @Test func `a push of 500 invalid entries gets a limited total number of errors`() async throws {
        let fixture = try await TwoTenantFixture()
        let more = Dictionary(uniqueKeysWithValues: (0..<100).map { ("member_\($0)", "1") })
        let drafts = (0..<400).map { _ in fixture.ada.create().with(more) }
        let reply = try await fixture.ada.push(drafts)
        #expect(reply.statuses == Array(repeating: "rejected", count: 400))
        let listed = reply.results.reduce(0) { $0 + ($1["error"]?.errors.count ?? 0) }
        #expect(listed <= ErrorBounds.perRequest + 400)
        #expect(reply.results.allSatisfy { $0["error"]?["errors_omitted"]?.int64 ?? 0 > 0 })
        let strict = try await fixture.ada.push(
            (0..<400).map { _ in fixture.ada.create().with(more) },
            prefer: "handling=strict"
        )
        #expect(strict.status == 422)
        #expect(strict.errors.count <= ErrorBounds.perProblem)
        #expect(strict.json?["errors_omitted"]?.int64 ?? 0 > 0)
    }

    @Test func `a push with thousands of forbidden headers gets a limited total number of errors`() async throws {
        let fixture = try await TwoTenantFixture()
        let headers = "{" + (0..<30).map { #""x-h\#($0)":"v""# }.joined(separator: ",") + "}"
        let drafts = (0..<400).map { _ in fixture.ada.create().with(["headers": headers]) }
        let reply = try await fixture.ada.push(drafts)
        #expect(reply.statuses == Array(repeating: "rejected", count: 400))
        let errors = reply.results.compactMap { $0["error"] }
        #expect(errors.reduce(0) { $0 + $1.errors.count } <= ErrorBounds.perRequest + 400)
        #expect(errors.allSatisfy { $0.errors.count + Int($0["errors_omitted"]?.int64 ?? 0) == 30 })
    }

    @Test func `repeats of entries that several pushes rejected get a limited total number of errors`() async throws {
        let fixture = try await TwoTenantFixture()
        let more = Dictionary(uniqueKeysWithValues: (0..<100).map { ("member_\($0)", "1") })
        let drafts = (0..<75).map { _ in fixture.ada.create().with(more) }
        for start in stride(from: 0, to: 75, by: 25) {
            let reply = try await fixture.ada.push(Array(drafts[start..<start + 25]))
            #expect(reply.results.allSatisfy { $0["error"]?.errors.count == ErrorBounds.perEntry })
        }
        let repeated = try await fixture.ada.push(drafts)
        #expect(repeated.results.allSatisfy { $0["replayed"]?.bool == true })
        let errors = repeated.results.compactMap { $0["error"] }
        #expect(errors.reduce(0) { $0 + $1.errors.count } <= ErrorBounds.perRequest + 75)
        #expect(errors.allSatisfy { $0.errors.count + Int($0["errors_omitted"]?.int64 ?? 0) == 100 })
        #expect(errors.allSatisfy { $0["code"]?.string == "validation_failed" })
    }

    @Test func `discarding a conflict with many dependents stores their entity once`() async throws {
        let fixture = try await TwoTenantFixture()
        let server = try await Self.document(fixture)
        let conflict = fixture.ada.change(server: server, base: 1)
        let dependants = (0..<300).map { _ in fixture.ada.change(server: server) }
        let pushed = try await fixture.ada.push([conflict] + dependants)
        #expect(pushed.statuses == ["conflict"] + Array(repeating: "blocked", count: 300))
        let reply = try await fixture.ada.post(
            "/v1/mutations/\(conflict.id)/discard",
            #"{"dependents":"discard"}"#
        )
        #expect(reply.status == 200)
        #expect(reply.json?["discarded"]?.elements.map { Array($0).count } == 301)
        #expect(reply.json?["error"]?["current"]?["document"]?["long"] != nil)
        #expect(try await Self.storedBytes(fixture) < 2_500_000)
        let last = try await fixture.ada.get("/v1/mutations/\(dependants[299].id)")
        #expect(last.json?["status"]?.string == "discarded")
        #expect(last.json?["error"]?["code"]?.string == "discarded")
        #expect(last.json?["error"]?["current"]?["document"]?["long"] != nil)
    }

    @Test func `rejects a preview of too many documents permanently and accepts its parts`() async throws {
        let fixture = try await TwoTenantFixture()
        let made = try await fixture.ada.push((0..<12).map { _ in fixture.ada.create() })
        let ids = made.results.compactMap { $0["server_id"]?.string }
        try await fixture.execute("UPDATE entities SET document = json_build_object('long', repeat('x', 1040000))")
        let drafts = ids.map { fixture.ada.change(server: $0) }
        let reply = try await fixture.ada.post("/v1/mutations/preview", fixture.ada.envelope(drafts))
        expectProblem(reply, .payloadTooLarge, errors: [])
        for part in [drafts.prefix(6), drafts.suffix(6)] {
            let reply = try await fixture.ada.post("/v1/mutations/preview", fixture.ada.envelope(Array(part)))
            #expect(reply.statuses == Array(repeating: "succeeded", count: 6))
        }
    }

    @Test func `a bulk discard of large conflicts stores a limited number of documents`() async throws {
        let fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#)
        let made = try await fixture.ada.push((0..<6).map { _ in fixture.ada.create() })
        let ids = made.results.compactMap { $0["server_id"]?.string }
        try await fixture.execute("UPDATE entities SET document = json_build_object('long', repeat('x', 1040000))")
        #expect(try await fixture.bob.push(ids.map { fixture.bob.change(server: $0) }).statuses.count == 6)
        let drafts = ids.map { fixture.ada.change(server: $0, base: 1) }
        #expect(try await fixture.ada.push(drafts).statuses == Array(repeating: "conflict", count: 6))
        let reply = try await fixture.operate(
            .POST,
            fixture.admin + "/mutations/discard",
            #"{"filter":{"status":"conflict"}}"#
        )
        #expect(reply.status == 200, "\(reply.text)")
        #expect(try await Self.storedBytes(fixture) < 2_500_000)
        for draft in drafts {
            let read = try await fixture.ada.get("/v1/mutations/\(draft.id)")
            #expect(read.json?["status"]?.string == "discarded")
            #expect(read.json?["error"]?["current"]?["document"]?["long"] != nil)
        }
    }
}
