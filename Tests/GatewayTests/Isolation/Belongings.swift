import Foundation
import JSONText
import NIOHTTP1
import Testing

/// Ada's data in every state, and all names with which others can try to access them.
struct Belongings {
    /// The kind of object that a name identifies.
    enum Kind: String, CaseIterable {
        case organization, user, device
        case mutation, failed, blocked, conflict
        case key, local, server
        case list, feed, mappings, events, pull
        case webhook, delivery

        /// Whether the object is a cursor.
        var isCursor: Bool { [.list, .feed, .mappings, .events, .pull].contains(self) }
    }

    /// A text in each of Ada's payloads.
    static let secret = "nobody-else-may-read-this"

    let fixture: TwoTenantFixture
    private(set) var names: [Kind: String] = [:]

    /// - Parameter visibility: the visibility of Ada's entities; those with `user` and `channels` are visible to her only.
    init(visibility: String) async throws {
        fixture = try await TwoTenantFixture(#"{"on_conflict":"continue"}"#)
        let channels = visibility == "channels" ? #","channels":["user/{owner}"]"# : ""
        let (ada, type) = (fixture.ada, #"{"visibility":"\#(visibility)"\#(channels)}"#)
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/task", type)
        let numbered = #"{"id_space":"device","visibility":"\#(visibility)"\#(channels)}"#
        _ = try await fixture.operate(.PUT, fixture.admin + "/entity-types/thing", numbered)
        let hook = try await fixture.operate(
            .POST,
            fixture.admin + "/webhooks",
            #"{"url":"https://hooks.example/ada"}"#
        )
        let webhook = try #require(hook.json?["id"]?.string)
        names[.webhook] = webhook
        let mapping = #"{"rules":[{"entity_type":"task","operation":"delete","id":"/id","version":"/v"}]}"#
        let source = #"{"kind":"webhook","settings":{"mapping":\#(mapping)}}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/sources/crm", source).status == 201)
        let (events, start) = try await ada.listen()
        events.stop()
        let local = UUID()
        let payload = #"{"title":"\#(Self.secret)"}"#
        let first = ada.create("task", local: local, payload)
        let made = try await ada.push([first, ada.create("task", payload)])
        let server = try #require(made.results.first?["server_id"]?.string)
        // the same user on another device is another writer
        let tablet = try await SyncWorker(fixture.gateway, organization: ada.organization, user: ada.user)
        #expect(try await tablet.push([tablet.change(server: server)]).statuses == ["succeeded"])
        let unknown = UUID().lowercased
        var stuck = [ada.change(server: unknown), ada.change(server: unknown), ada.change(server: server, base: 1)]
        for index in stuck.indices { stuck[index]["payload"] = payload }
        #expect(try await ada.push(stuck).statuses == ["failed", "blocked", "conflict"])

        // ids that were assigned to her tablet provisionally
        var thing = ada.create("thing", payload)
        thing["local_id"] = "471100"
        #expect(try await ada.push([thing]).statuses == ["succeeded"])
        let pulled = try await tablet.post(
            "/v1/devices/\(tablet.device.lowercased)/pull",
            #"{"next_local_ids":{"thing":471200}}"#
        )
        names[.pull] = pulled.next

        let reported = try await fixture.operate(.GET, "\(fixture.admin)/webhooks/\(webhook)/deliveries")
        names[.delivery] = reported.json?.value(at: "/deliveries/0/id")?.string

        names[.organization] = ada.organization.lowercased
        names[.user] = ada.user.lowercased
        names[.device] = ada.device.lowercased
        names[.mutation] = first.id
        for (kind, draft) in zip([Kind.failed, .blocked, .conflict], stuck) { names[kind] = draft.id }
        names[.key] = first["idempotency_key"].map { String($0.dropFirst().dropLast()) }
        names[.local] = local.lowercased
        names[.server] = server
        names[.list] = try await ada.get("/v1/mutations?limit=1").next
        names[.feed] = try await ada.get("/v1/changes?limit=1").next
        names[.mappings] = try await ada.get("/v1/id-mappings?limit=1").next
        names[.events] = start
        #expect(names.count == Kind.allCases.count, "\(names)")
    }

    /// One of Ada's names.
    func name(_ kind: Kind) throws -> String { try #require(names[kind]) }

    /// Returns a name of the same form that was never assigned, such as another UUID or a cursor of an unknown feed.
    /// Returns nil if no such name exists, because a position in a list is only a number and a feed is shared with the
    /// organization.
    func strangeName(_ kind: Kind, for stranger: Stranger) throws -> String? {
        guard kind.isCursor else { return UUID().lowercased }
        guard kind != .list, stranger.isForeign else { return nil }
        var parts = try name(kind).split(separator: "-").map(String.init)
        parts[1] = String(parts[1].dropLast()) + (parts[1].hasSuffix("0") ? "1" : "0")
        return parts.joined(separator: "-")
    }

    /// The rows that contain Ada's user id, of all tables, as text. Tests compare them before and after guesses, so a
    /// guess must not create rows with her ids.
    func rows() async throws -> [String] { try await fixture.rows(mentioning: fixture.ada.user.lowercased) }
}

/// A new user without any data. Each guess gets a separate stranger, so that it does not affect the next guess.
struct Stranger {
    let worker: SyncWorker
    /// Whether the stranger belongs to the other organization.
    let isForeign: Bool

    init(_ fixture: TwoTenantFixture, isForeign: Bool) async throws {
        let organization = isForeign ? fixture.eve.organization : fixture.ada.organization
        worker = try await SyncWorker(fixture.gateway, organization: organization)
        self.isForeign = isForeign
    }
}
