import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// The tokens of three operators, one for each scope.
enum LiveOperator {
    static let token = "operators-token-that-may-everything"
    static let settling = "operators-token-that-may-settle"
    static let reading = "operators-token-that-may-read"
    /// These tokens, and the operator token that all tests use by default.
    static let all = OperatorTokens(
        parsing: "anna@admin:\(token) per@settle:\(settling) kari@read:\(reading) \(LiveGateway.operatorToken)"
    )
}

/// A gateway with typical work for an operator. It has two organizations, one of them with an API. It has failures,
/// conflicts and their dependents, and a malicious payload.
struct ConsoleScene: Sendable {
    let fixture: TwoTenantFixture
    let upstream: DemoServer
    /// Another user of Ada's organization, whose lane nothing blocks.
    let colleague: SyncWorker
    /// The ids of mutations, by a name for their outcome: Ada's `failed` and `conflict`; Bob's `sent`, `upstream`,
    /// `again`; the colleague's `hostile`. `entity` is the server id of an expense.
    let mutations: [String: String]

    /// Markup in a payload that must be shown as text only.
    static let script = "<script>alert(document.domain)</script><img src=x onerror=alert(1)>"
    static let large = "123456789012345678901234567890"
    static let exact = "249.900"

    /// - Parameter isHostile: whether to add malicious texts.
    static func make(isHostile: Bool = false) async throws -> ConsoleScene {
        let upstream = try await DemoServer.start()
        let fixture = try await TwoTenantFixture(#"{"on_conflict":"halt"}"#, forwards: true, operates: true) {
            $0.operatorTokens = LiveOperator.all ?? $0.operatorTokens
        }
        try await operate(fixture, fixture.admin, #"{"name":"Nordlys Salg"}"#)
        let other = isHostile ? #"<b>Bergen</b> \u202eBrygge"# : "Bergen Brygge"
        try await operate(
            fixture,
            "/admin/organizations/\(fixture.eve.organization.lowercased)",
            #"{"name":"\#(other)"}"#
        )
        try await operate(fixture, fixture.admin + "/upstream", #"{"base_url":"\#(upstream.baseURL)"}"#)
        for type in ["contact", "expense", "note"] {
            try await operate(fixture, fixture.admin + "/entity-types/\(type)", #"{"upstream":\#(type == "contact")}"#)
        }
        let colleague = try await SyncWorker(fixture.gateway, organization: fixture.ada.organization)
        try await share(fixture, colleague)
        var mutations = try await replay(fixture)
        mutations.merge(try await store(fixture, colleague)) { $1 }
        if isHostile {
            let note = colleague.change("update", "note", server: "1").with(["payload": hostile])
            let reply = try await colleague.push([note])
            #expect(reply.statuses == ["failed"], "\(reply.text)")
            mutations["hostile"] = note.id
        }
        return ConsoleScene(fixture: fixture, upstream: upstream, colleague: colleague, mutations: mutations)
    }

    private static func operate(_ fixture: TwoTenantFixture, _ path: String, _ body: String) async throws {
        let url = fixture.gateway.operations + path
        let reply = try await send(.PUT, url, token: LiveOperator.token, body: Array(body.utf8))
        #expect((200..<300).contains(reply.status), "\(reply.text)")
    }

    /// Creates a channel that one user holds by an operator's grant, and another user by an entity's grant.
    private static func share(_ fixture: TwoTenantFixture, _ colleague: SyncWorker) async throws {
        let type = #"""
            {"upstream":false,"visibility":"channels","channels":["office"],
             "grants":[{"user":"/officer","channels":["office"],"role":"read"}]}
            """#
        try await operate(fixture, fixture.admin + "/entity-types/case", type)
        let channels = fixture.admin + "/users/\(colleague.user.lowercased)/channels"
        try await operate(fixture, channels, #"{"channel":"office","role":"write"}"#)
        let reply = try await colleague.push([colleague.create("case", #"{"officer":\#(fixture.bob.user.quoted)}"#)])
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
    }

    /// Creates mutations that are replayed to the API. Two succeed, one fails and blocks another mutation, and one is
    /// retried.
    private static func replay(_ fixture: TwoTenantFixture) async throws -> [String: String] {
        let (contact, lost, worker) = (UUID(), UUID(), fixture.bob)
        func create(_ path: String, _ payload: String, as local: UUID = UUID()) -> Draft {
            worker.create("contact", local: local, payload).with(["endpoint": "\"\(path)\""])
        }
        let sent = create("/contacts", #"{"name":"Kari Nordmann","phone":"+47 22 00 00 00"}"#, as: contact)
        let friend = create("/contacts", #"{"name":"Ola Hansen","friend_id":\#(contact.quoted),"limit":12500.00}"#)
        let nowhere = create("/contacts/0/x/", #"{"name":"Nobody","friend_id":\#(contact.quoted)}"#, as: lost)
        let behind = worker.draft("update", "contact", ["local_id": lost.quoted, "payload": #"{"name":"Behind"}"#])
            .with(["endpoint": #""/contacts/{local_id}""#])
        let reply = try await worker.push([sent, friend, nowhere, behind], prefer: "wait=30")
        #expect(reply.statuses == ["succeeded", "succeeded", "failed", "blocked"], "\(reply.text)")
        let again = create("/contacts", #"{"name":"fail once"}"#)
        _ = try await worker.push([again])
        try await waitUntil("the API refuses it for the time being") {
            try await worker.get("/v1/mutations/\(again.id)").json?["attempt_count"]?.int64 == 1
        }
        return ["sent": friend.id, "upstream": nowhere.id, "again": again.id]
    }

    /// Creates mutations in the built-in store. Some fail, and one is in conflict.
    private static func store(_ fixture: TwoTenantFixture, _ colleague: SyncWorker) async throws -> [String: String] {
        let (ada, eve) = (fixture.ada, fixture.eve)
        let failed = (1...3).map { number in
            ada.change("update", "expense", server: "\(4_710 + number)").with(["payload": #"{"amount":249.90}"#])
        }
        let notes = (1...2).map { number in ada.change("update", "note", server: "\(number)") }
        let first = try await ada.push(failed + notes)
        #expect(first.statuses == Array(repeating: "failed", count: 5), "\(first.text)")
        let bill = try await ada.push([ada.create("expense", #"{"text":"Lunch","amount":249.90,"currency":"NOK"}"#)])
        let server = try #require(bill.results.first?["server_id"]?.string, "\(bill.text)")
        let edit = try await colleague.push([colleague.change("update", "expense", server: server, base: 1)])
        #expect(edit.statuses == ["succeeded"], "\(edit.text)")
        let conflict = ada.change("update", "expense", server: server, base: 1)
            .with(["payload": #"{"text":"Lunch with Kari","amount":12499.90}"#])
        let second = try await ada.push([conflict, ada.create("expense", #"{"text":"Taxi","amount":310}"#)])
        #expect(second.statuses.first == "conflict", "\(second.text)")
        let visits = try await eve.push((1...4).map { number in eve.change("update", "visit", server: "\(number)") })
        #expect(visits.statuses == Array(repeating: "failed", count: 4), "\(visits.text)")
        return ["failed": failed[0].id, "conflict": conflict.id, "entity": server]
    }

    /// Markup, characters that change the text direction, numbers that JavaScript would round, 200 KB of text, and deep
    /// nesting.
    private static let hostile = """
        {"title":"\(script)","rtl":"\\u202egnp.exe","name\u{202e}":"turned","big":\(large),"price":\(exact),\
        "long":"\(String(repeating: "lorem ipsum ", count: 17_000))",\
        "deep":\(String(repeating: "[", count: 60))0\(String(repeating: "]", count: 60))}
        """

    // MARK: - Addresses

    var organization: String { "/console/organizations/\(fixture.ada.organization.lowercased)" }
    var user: String { "\(organization)/users/\(fixture.ada.user.lowercased)" }
    var channel: String { "\(organization)/channel?channel=office" }

    func mutation(_ kind: String) -> String {
        let user =
            switch kind {
            case "failed", "conflict": fixture.ada.user
            case "hostile": colleague.user
            default: fixture.bob.user
            }
        return "\(organization)/users/\(user.lowercased)/mutations/\(mutations[kind] ?? "")"
    }

    /// Every kind of page, by a name for its screenshot.
    var pages: [(name: String, path: String)] {
        [
            ("now", "/console"), ("day", "/console?period=day"), ("failures", "/console/failures"),
            ("recent", "/console/recent?organization_id=\(fixture.ada.organization.lowercased)"),
            ("activity", organization + "/mutations"), ("entities", organization + "/entities"),
            ("entity", organization + "/entity?entity_type=expense&entity_id=\(mutations["entity"] ?? "")"),
            ("device", "\(user)/devices/\(fixture.ada.device.lowercased)"),
            ("mutations", "/console/mutations?organization_id=\(fixture.ada.organization.lowercased)&status=failed"),
            ("mutation", mutation("upstream")), ("retrying", mutation("again")), ("conflict", mutation("conflict")),
            ("user", user), ("channel", channel), ("lanes", "/console/lanes"),
            ("organizations", "/console/organizations"), ("organization", organization),
            ("settings", organization + "/settings"), ("upstream", organization + "/upstream"),
            ("types", organization + "/types"), ("users", organization + "/users"), ("keys", organization + "/keys"),
            ("edits", organization + "/edits"), ("operations", "/console/operations"), ("audit", "/console/audit"),
        ]
    }
}
