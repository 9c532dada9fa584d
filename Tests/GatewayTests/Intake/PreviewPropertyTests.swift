import Foundation
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// The preview of a random push predicts the results of the push and changes nothing.
@Suite struct PreviewPropertyTests {
    /// The number of pushes.
    private static let rounds = 120

    @Test func `a preview predicts the results of the push`() async throws {
        let seed =
            ProcessInfo.processInfo.environment["SLUICE_TEST_SEED"].flatMap(UInt64.init) ?? .random(in: 1 ... .max)
        var world = try await World(seed: seed)
        for round in 0..<Self.rounds {
            let note: Comment = "SLUICE_TEST_SEED=\(seed), round \(round)"
            let (worker, drafts) = world.drafts()
            let prefer = world.random.oneIn(8) ? "handling=strict" : nil
            let after = world.random.oneIn(10) ? Int64.random(in: 0...40, using: &world.random) : nil
            let before = try await world.fixture.tables()
            let preview = try await worker.preview(drafts, after: after, prefer: prefer)
            #expect(try await world.fixture.tables() == before, note)
            let push = try await worker.push(drafts, after: after, prefer: prefer)
            guard preview.status == 200 else {
                #expect(push.status == preview.status && push.code == preview.code, note)
                #expect(push.errors == preview.errors || preview.errors.contains(where: Self.isTaken), note)
                continue
            }
            #expect([200, 202].contains(push.status), note)
            world.know(drafts.map(\.json).joined())
            #expect(world.strangers(in: preview).isEmpty, note)
            let creates = drafts.filter { $0["operation"] == #""create""# }
            let created = Set(creates.map { $0["local_id"]?.replacingOccurrences(of: "\"", with: "") })
            Self.compare(preview, push, created: created, note)
            world.learn(push, of: worker)
        }
        #expect(world.outcomes.isSuperset(of: ["succeeded", "rejected", "conflict", "pending"]), "\(world.outcomes)")
    }

    /// A push checks for used client ids last, after all other errors. A preview reports them immediately.
    private static func isTaken(_ error: String) -> Bool {
        error.hasSuffix(" unique_client_id_per_entity_type")
    }

    /// Compares results, except for ids that the push created. In their places, the preview has null or the client id.
    private static func compare(_ preview: Reply, _ push: Reply, created: Set<String?>, _ note: Comment) {
        func pair(_ mapping: JSONValue) -> [String?] { [mapping["client_id"]?.string, mapping["server_id"]?.text] }
        let known = Set(preview.mappings.map(pair))
        let all = push.mappings.map(pair)
        // a push does not look up other entities with the client id of its create
        #expect(known.filter { !created.contains($0.first ?? nil) }.isSubset(of: all), note)
        var text = push.text
        var made: Set<String> = []
        for mapping in push.mappings where !known.contains(pair(mapping)) {
            guard let client = mapping["client_id"]?.string, let server = mapping["server_id"]?.string else { continue }
            text = text.replacingOccurrences(of: server, with: client)
            made.insert(client)
        }
        let expected = (try? JSONTree(parsing: Array(text.utf8)).root)?["results"]?.elements.map(Array.init) ?? []
        #expect(preview.json?["accepted_sequence"]?.int64 == push.json?["accepted_sequence"]?.int64, note)
        #expect(preview.results.count == expected.count, note)
        for (result, expected) in zip(preview.results, expected) {
            let warnings = expected.names.filter { $0 == "warnings" }
            #expect(
                result.names == expected.names.filter { $0 != "warnings" } + ["request", "conflict"] + warnings,
                note
            )
            for name in expected.names {
                if name == "error", result["error"]?.errors.contains(where: isTaken) ?? false {
                    #expect(expected["error"]?.errors.isEmpty == false, "\(note) \(expected.text)")
                } else if name == "server_id", let id = expected.value(at: "/" + name)?.string, made.contains(id) {
                    #expect(result.value(at: "/" + name)?.isNull == true, "\(note) \(result.text) \(expected.text)")
                } else {
                    #expect(
                        result.value(at: "/" + name)?.text == expected.value(at: "/" + name)?.text,
                        "\(note) \(result.text) \(expected.text)"
                    )
                }
            }
        }
    }
}

/// Two tenants with some users and devices, and the ids that they have received.
private struct World {
    let fixture: TwoTenantFixture
    var random: SeededRandom
    /// Every status that occurred.
    var outcomes: Set<String> = []
    private let workers: [SyncWorker]
    /// The mutations of the second last worker are forwarded, so all later mutations of this user wait.
    private let forwarder: Int
    private var locals: [[UUID]]
    private var servers: [String] = []
    private var sent: [[Draft]]
    private var ids: [[String]]
    private var known: Set<UUID> = []

    init(seed: UInt64) async throws {
        fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#)
        random = SeededRandom(seed)
        for (organization, settings) in [
            ("/upstream", #"{"base_url":"http://127.0.0.1:1"}"#), ("/entity-types/contact", #"{"upstream":true}"#),
            ("/entity-types/task", #"{"upstream":false}"#), ("/entity-types/note", #"{"upstream":false}"#),
            ("/entity-types/diary", #"{"upstream":false,"id_space":"shared","visibility":"user"}"#),
        ] {
            let reply = try await fixture.operate(.PUT, fixture.admin + organization, settings)
            #expect(reply.status == 201, "\(reply.text)")
        }
        let organization = fixture.ada.organization
        let second = try await SyncWorker(fixture.gateway, organization: organization, user: fixture.ada.user)
        let dora = try await SyncWorker(fixture.gateway, organization: organization)
        workers = [fixture.ada, second, fixture.bob, dora, fixture.eve]
        forwarder = 3
        locals = workers.map { _ in [] }
        sent = workers.map { _ in [] }
        ids = workers.map { _ in [] }
        for worker in workers { known.formUnion([worker.user, worker.organization, worker.device]) }
    }

    // MARK: - Pushes

    mutating func drafts() -> (SyncWorker, [Draft]) {
        let place = Int.random(in: 0..<workers.count, using: &random)
        let drafts = (0..<Int.random(in: 1...8, using: &random)).map { _ in draft(place) }
        for draft in drafts { ids[place].append(draft.id) }
        sent[place] += drafts
        return (workers[place], drafts)
    }

    private mutating func draft(_ place: Int) -> Draft {
        let worker = workers[place]
        if random.oneIn(7), let earlier = sent[place].randomElement(using: &random) {
            guard random.oneIn(3) else { return earlier }
            return earlier.with(["payload": #"{"changed":true}"#])
        }
        var draft =
            if place == forwarder, random.chance(50) { forwarded(worker, place) } else { builtIn(worker, place) }
        if random.oneIn(6) {
            draft["conflict_resolution"] = ["\"server_wins\"", "\"client_wins\""].randomElement(using: &random)
        }
        if random.oneIn(8), let id = ids[place].randomElement(using: &random) {
            draft["dependency_ids"] = "[\"\(id)\"]"
        }
        if random.oneIn(12) { draft["created_at"] = nil }
        if random.oneIn(15), let number = Int(draft["sequence_number"] ?? "1") {
            draft["sequence_number"] = "\(max(1, number - Int.random(in: 1...3, using: &random)))"
        }
        return draft
    }

    private mutating func builtIn(_ worker: SyncWorker, _ place: Int) -> Draft {
        let operation =
            ["create", "create", "update", "update", "replace", "delete"].randomElement(using: &random) ?? ""
        let type = ["task", "task", "note", "diary"].randomElement(using: &random) ?? ""
        var members: [String: String] = operation == "delete" ? [:] : ["payload": payload(place)]
        if operation != "create", random.oneIn(2) {
            members["base_version"] = "\(Int.random(in: 0...3, using: &random))"
        }
        if type == "diary", worker.organization == fixture.ada.organization {
            members["server_id"] = "\(Int.random(in: 1...4, using: &random))"
        } else if operation == "create" {
            members["local_id"] = local(place)
        } else if random.oneIn(2), let server = servers.randomElement(using: &random) {
            members["server_id"] = "\"\(server)\""
        } else {
            members["local_id"] = (locals[place].randomElement(using: &random) ?? random.uuid()).quoted
        }
        return worker.draft(operation, type, members)
    }

    private mutating func forwarded(_ worker: SyncWorker, _ place: Int) -> Draft {
        let operation = ["create", "update", "delete"].randomElement(using: &random) ?? ""
        var members = ["endpoint": #""/contacts/{local_id}""#, "payload": payload(place)]
        if operation == "create" {
            members["local_id"] = local(place)
        } else {
            members["local_id"] = (locals[place].randomElement(using: &random) ?? random.uuid()).quoted
        }
        return worker.draft(operation, "contact", members)
    }

    /// A new client id, or rarely a used one.
    private mutating func local(_ place: Int) -> String {
        if random.oneIn(10), let old = locals[place].randomElement(using: &random) { return old.quoted }
        let id = random.uuid()
        locals[place].append(id)
        return id.quoted
    }

    private mutating func payload(_ place: Int) -> String {
        guard random.oneIn(2), let id = locals[place].randomElement(using: &random) else {
            return #"{"n":\#(Int.random(in: 0...9, using: &random)),"gone":null}"#
        }
        return #"{"of":[\#(id.quoted)],"n":1}"#
    }

    // MARK: - Known ids

    mutating func know(_ text: String) {
        for match in text.lowercased().matches(of: /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/) {
            if let id = UUID(uuidString: String(match.output.0)) { known.insert(id) }
        }
    }

    /// Returns the ids that only the preview generated. Idempotency keys for upstreams are not among them, because they
    /// are derived from known values.
    func strangers(in preview: Reply) -> Set<UUID> {
        var seen = self
        seen.known = []
        seen.know(preview.text)
        let keys = preview.results.compactMap { $0.value(at: "/request/headers/idempotency-key")?.uuid }
        return seen.known.subtracting(known).subtracting(keys)
    }

    mutating func learn(_ push: Reply, of worker: SyncWorker) {
        know(push.text)
        outcomes.formUnion(push.statuses.compactMap { $0 })
        servers += push.mappings.compactMap { $0["server_id"]?.string }
    }
}
