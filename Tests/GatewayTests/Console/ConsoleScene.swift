import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import TestSupport
import Testing

/// The token of an operator, one for each scope.
enum LiveOperator {
    static let token = "operators-token-that-may-everything"
    static let settling = "operators-token-that-may-settle"
    static let reading = "operators-token-that-may-read"
    static let all = OperatorTokens(parsing: "anna@admin:\(token) per@settle:\(settling) kari@read:\(reading)")
}

/// A gateway with what an operator meets: two organizations, one with an API behind it; failures, conflicts, and what
/// waits for them; and a payload that somebody wrote to do harm.
struct ConsoleScene: Sendable {
    let scene: Scene
    let upstream: DemoServer
    /// Ada's mutations by what became of them: `failed`, `conflict`, `hostile`, `sent`.
    let mutations: [String: String]

    /// What a payload holds that is not to be more than text.
    static let script = "<script>alert(document.domain)</script><img src=x onerror=alert(1)>"
    static let large = "123456789012345678901234567890"
    static let exact = "249.900"

    static func make() async throws -> ConsoleScene {
        let upstream = try await DemoServer.start()
        let scene = try await Scene(#"{"on_conflict":"halt"}"#, forwards: true) {
            $0.operatorTokens = LiveOperator.all ?? $0.operatorTokens
        }
        return try await ConsoleScene(scene, upstream)
    }

    private init(_ scene: Scene, _ upstream: DemoServer) async throws {
        self.scene = scene
        self.upstream = upstream
        try await Self.operate(scene, .PUT, scene.admin, #"{"name":"Nordlys Salg"}"#)
        try await Self.operate(
            scene,
            .PUT,
            "/admin/organizations/\(scene.eve.organization.lowercased)",
            #"{"name":"<b>Bergen</b> \u202eBrygge"}"#
        )
        try await Self.operate(scene, .PUT, scene.admin + "/upstream", #"{"base_url":"\#(upstream.baseURL)"}"#)
        for type in ["contact", "expense", "note"] {
            try await Self.operate(scene, .PUT, scene.admin + "/entity-types/\(type)", #"{"upstream":\#(type == "contact")}"#)
        }
        mutations = try await Self.push(scene)
    }

    private static func operate(_ scene: Scene, _ method: HTTPMethod, _ path: String, _ body: String) async throws {
        let reply = try await send(
            method,
            scene.gateway.operations + path,
            token: LiveOperator.token,
            body: Array(body.utf8)
        )
        #expect((200..<300).contains(reply.status), "\(reply.text)")
    }

    /// What phones did meanwhile.
    private static func push(_ scene: Scene) async throws -> [String: String] {
        let (ada, eve) = (scene.ada, scene.eve)
        let (contact, lost) = (UUID(), UUID())
        let sent = ada.create("contact", local: contact, #"{"name":"Kari Nordmann","phone":"+47 22 00 00 00"}"#)
            .with(["endpoint": #""/contacts""#])
        let visit = ada.create("contact", #"{"name":"Ola","friend_id":\#(contact.quoted)}"#)
            .with(["endpoint": #""/contacts""#])
        let nowhere = ada.create("contact", local: lost, #"{"name":"Nobody"}"#).with(["endpoint": #""/contacts/0/x/""#])
        let behind = ada.draft("update", "contact", ["local_id": lost.quoted, "payload": #"{"name":"Behind"}"#])
            .with(["endpoint": #""/contacts/{local_id}""#])
        let first = try await ada.push([sent, visit, nowhere, behind], prefer: "wait=30")
        #expect(first.statuses == ["succeeded", "succeeded", "failed", "blocked"], "\(first.text)")
        let failed = (1...3).map { number in
            ada.change("update", "expense", server: "\(4_710 + number)").with(["payload": #"{"amount":249.90}"#])
        }
        let hostile = ada.change("update", "note", server: "1").with(["payload": Self.hostile])
        let second = try await ada.push(failed + [hostile])
        #expect(second.statuses == Array(repeating: "failed", count: 4), "\(second.text)")
        let note = try await ada.push([ada.create("expense", #"{"text":"Lunch","amount":249.90,"currency":"NOK"}"#)])
        let server = try #require(note.results.first?["server_id"]?.string, "\(note.text)")
        _ = try await scene.bob.push([scene.bob.change("update", "expense", server: server, base: 1)])
        let conflict = ada.change("update", "expense", server: server, base: 1)
            .with(["payload": #"{"text":"Lunch with Kari","amount":12499.90}"#])
        let third = try await ada.push([conflict])
        #expect(third.statuses == ["conflict"], "\(third.text)")
        let others = try await eve.push((1...2).map { _ in eve.change("delete", "visit", server: "7") })
        #expect(others.statuses == ["failed", "failed"], "\(others.text)")
        return [
            "failed": failed[0].id, "conflict": conflict.id, "hostile": hostile.id, "sent": visit.id,
            "upstream": nowhere.id,
        ]
    }

    /// Markup, characters that turn the direction, numbers that JavaScript would round, 200 KB of text, and depth.
    private static let hostile = """
        {"title":"\(script)","rtl":"\\u202egnp.exe","name\u{202e}":"turned","big":\(large),"price":\(exact),\
        "long":"\(String(repeating: "lorem ipsum ", count: 17_000))",\
        "deep":\(String(repeating: "[", count: 200))0\(String(repeating: "]", count: 200))}
        """

    // MARK: - Addresses

    var organization: String { "/console/organizations/\(scene.ada.organization.lowercased)" }
    var user: String { "\(organization)/users/\(scene.ada.user.lowercased)" }

    func mutation(_ kind: String) -> String { "\(user)/mutations/\(mutations[kind] ?? "")" }

    /// Every kind of page, by a name for its picture.
    var pages: [(name: String, path: String)] {
        [
            ("now", "/console"), ("failures", "/console/failures"),
            ("mutations", "/console/mutations?organization_id=\(scene.ada.organization.lowercased)&status=failed"),
            ("mutation", mutation("upstream")), ("conflict", mutation("conflict")), ("user", user),
            ("organizations", "/console/organizations"), ("organization", organization),
            ("settings", organization + "/settings"), ("upstream", organization + "/upstream"),
            ("types", organization + "/types"), ("users", organization + "/users"), ("keys", organization + "/keys"),
            ("edits", organization + "/edits"), ("operations", "/console/operations"), ("audit", "/console/audit"),
        ]
    }
}
