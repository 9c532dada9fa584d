import AdministrationFeature
import Foundation
import GatewaySupport
import IngestFeature
import JSONText
import NIOHTTP1
import StandardWebhooks
import SyncModel
import Testing

@testable import SyncStore

/// A place of the contract that can contain an id, and a request with a name in that place.
struct Guess: Sendable {
    typealias Send = @Sendable (SyncWorker, String) async throws -> Reply

    /// The guessed place, in the format of ``Contract/placesOfIDs(ofOperations:)``.
    let place: String
    /// The kinds of names that are tried there.
    let kinds: [Belongings.Kind]
    let send: Send

    /// Whether the response is the organization's feed, which colleagues share.
    var showsFeed: Bool { place == "GET /v1/changes#since" || place.contains("/pull#") }

    init(_ place: String, _ kinds: [Belongings.Kind], _ send: @escaping Send) {
        self.place = place
        self.kinds = kinds
        self.send = send
    }

    /// One guess for each place of `/v1`.
    static let all =
        queries + paths + bodies + messages + pushes("/v1/mutations") + pushes("/v1/mutations/preview") + events
        + organizations

    private static let mutations: [Belongings.Kind] = [.mutation, .failed, .blocked, .conflict]
    private static let everything = mutations + [.device, .key, .local, .server]

    private static let queries = [
        Guess("GET /v1/mutations#device_id", [.device]) { try await $0.get("/v1/mutations?device_id=\($1)") },
        Guess("GET /v1/mutations#cursor", [.list]) { worker, name in
            _ = try await worker.push([worker.create("note")])
            return try await worker.get("/v1/mutations?cursor=\(name)")
        },
        Guess("GET /v1/id-mappings#since", [.mappings]) { worker, name in
            _ = try await worker.push([worker.create("note")])
            return try await worker.get("/v1/id-mappings?since=\(name)")
        },
        Guess("GET /v1/changes#channel", [.user]) { worker, name in
            let reply = try await worker.get("/v1/changes?channel=user/\(name)")
            // the cursor has a hash of the filter
            return Reply(status: reply.status, headers: reply.headers, body: Array("\(reply.changes)".utf8))
        },
        Guess("POST /v1/devices/{device_id}/pull#/channels", [.user]) { worker, name in
            let body = #"{"channels":["user/\#(name)"],"received":null}"#
            let reply = try await worker.post("/v1/devices/\(worker.device.lowercased)/pull", body)
            return Reply(status: reply.status, headers: reply.headers, body: Array("\(reply.changes)".utf8))
        },
        Guess("POST /v1/devices/{device_id}/pull#/received", [.feed, .pull]) { worker, name in
            let body = #"{"channels":["a"],"received":"\#(name)"}"#
            let reply = try await worker.post("/v1/devices/\(worker.device.lowercased)/pull", body)
            return Reply(status: reply.status, headers: reply.headers, body: Array("\(reply.changes)".utf8))
        },
        Guess("GET /v1/changes#since", [.feed]) { try await $0.get("/v1/changes?since=\($1)") },
        Guess("POST /v1/devices/{device_id}/pull#/since", [.feed, .pull]) { worker, name in
            try await worker.post("/v1/devices/\(worker.device.lowercased)/pull", #"{"since":"\#(name)"}"#)
        },
        Guess("GET /v1/events#Last-Event-ID", [.events]) { worker, name in
            let events = try await EventListener(worker.gateway.address, token: worker.token, after: name)
            defer { events.stop() }
            guard events.status == 200 else {
                return try await worker.get("/v1/events", headers: [("Last-Event-ID", name)])
            }
            let draft = worker.create("note")
            _ = try await worker.push([draft])
            let frames = try await events.until { $0.event == "mutation" && $0.data?["id"]?.string == draft.id }
            // all colleagues receive the hint that the organization's feed has changed
            let texts = frames.filter { $0.event != "changes" }.map { "\($0.event ?? "-") \($0.lines)" }
            return Reply(status: events.status, headers: events.headers, body: Array("\(texts)".utf8))
        },
    ]

    private static let paths =
        [
            Guess("GET /v1/mutations/{id}#id", everything) { try await $0.get("/v1/mutations/\($1)") },
            Guess("PUT /v1/devices/{device_id}#device_id", [.device]) { worker, name in
                try await GatewayTests.send(.PUT, worker.gateway.address + "/v1/devices/\(name)", token: worker.token)
            },
            Guess("POST /v1/devices/{device_id}/pull#device_id", [.device]) { worker, name in
                try await worker.post("/v1/devices/\(name)/pull", "{}")
            },
        ]
        + [
            ("retry", #"{"payload":{},"force":true}"#), ("discard", #"{"dependents":"discard"}"#),
            ("resolve", #"{"strategy":"client_wins"}"#),
        ].map { move, body in
            Guess("POST /v1/mutations/{id}/\(move)#id", everything) { worker, name in
                try await worker.post("/v1/mutations/\(name)/\(move)", body)
            }
        }

    /// Events of another organization that name Ada's objects.
    private static let events = [
        ("id", [.server, .local]), ("event_id", [.key]), ("owner", [.user]), ("causing_key", [.key, .mutation]),
    ].map { (member: String, kinds: [Belongings.Kind]) in
        Guess("POST /v1/ingest#/events/0/\(member)", kinds) { worker, name in
            let organization = UUID()
            let administration = worker.gateway.store.administration
            _ = try await administration.put(organization, OrganizationUpdate(name: "Spies"))
            let made = try await administration.makeServiceToken(for: "spy", of: organization)
            var members = ["id": "1", "event_id": #""e""#, "owner": "null", "causing_key": "null"]
            members[member] = #""\#(name)""#
            let all = members.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",")
            let event = #"{\#(all),"entity_type":"task","version":1,"operation":"upsert","document":{}}"#
            let reply = try await GatewayTests.send(
                .POST,
                worker.gateway.address + "/v1/ingest",
                token: made?.token.text,
                body: Array(#"{"events":[\#(event)]}"#.utf8)
            )
            // a user's id may belong to another user elsewhere
            _ = try await administration.purge(organization)
            return reply
        }
    }

    /// Messages for sources, signed with the sender's own secret, or sent to the sender's own organization.
    private static let messages = [
        Guess("POST /v1/sources/{organization}/{source}#organization", [.organization]) { worker, name in
            try await message(to: "\(name)/crm", id: "msg_1", through: worker)
        },
        Guess("POST /v1/sources/{organization}/{source}#webhook-id", [.key]) { worker, name in
            let organization = UUID()
            let store = worker.gateway.store
            _ = try await store.administration.put(organization, OrganizationUpdate(name: "Spies"))
            let settings =
                #"{"mapping":{"rules":[{"entity_type":"task","operation":"delete","id":"/id","version":"/v"}]}}"#
            if let settings = SourceSettings(.webhook, stored: Array(settings.utf8)) {
                let key = SourceKey(organization: organization, name: "spy")
                _ = try await store.sourceAdministration.put(key, SourceUpdate(settings: settings, secret: secret))
            }
            let reply = try await message(to: "\(organization.lowercased)/spy", id: name, through: worker)
            _ = try await store.administration.purge(organization)
            return reply
        },
    ]

    private static let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

    private static func message(to path: String, id: String, through worker: SyncWorker) async throws -> Reply {
        let body = Array(#"{"id":"1","v":1}"#.utf8)
        let signer = WebhookSigner(secrets: [WebhookSecret(secret)].compactMap(\.self))
        let headers = try signer.headers(id: id, timestamp: worker.gateway.clock.now.seconds, body: body)
        return try await GatewayTests.send(
            .POST,
            worker.gateway.address + "/v1/sources/\(path)",
            headers: headers.map { ($0.name, $0.value) },
            body: body
        )
    }

    /// An organization other than the token's, on every route.
    private static let organizations = ((try? Contract().routes(ofOperations: false)) ?? []).sorted()
        .filter { $0.contains(" /v1/") && !$0.contains("/sources/") }
        .map { route in
            Guess("\(route)#X-Sluice-Organization", [.organization]) { worker, name in
                let words = route.split(separator: " ").map(String.init)
                let path = words[1].replacing("{id}", with: UUID().lowercased)
                    .replacing("{device_id}", with: UUID().lowercased)
                let method = HTTPMethod(rawValue: words[0])
                // the request is rejected before a body is read, so it has no body
                return try await GatewayTests.send(
                    method,
                    worker.gateway.address + path,
                    token: worker.token,
                    headers: [("X-Sluice-Organization", name)]
                )
            }
        }

    private static let bodies = [
        Guess("POST /v1/id-mappings/lookup#/client_ids", everything) { worker, name in
            try await worker.post("/v1/id-mappings/lookup", #"{"client_ids":["\#(name)"]}"#)
        },
        Guess("POST /v1/id-mappings/lookup#/device_id", [.device]) { worker, name in
            let body = #"{"client_ids":[1,2,3],"entity_type":"sketch","device_id":"\#(name)"}"#
            return try await worker.post("/v1/id-mappings/lookup", body)
        },
        Guess("POST /v1/mutations/{id}/retry#/payload", everything) { worker, name in
            let failed = try await failure(of: worker)
            let body = #"{"payload":{"about":"\#(name)","deep":[{"a":["\#(name)"]}]}}"#
            return try await worker.post("/v1/mutations/\(failed.id)/retry", body)
        },
        Guess("POST /v1/mutations/{id}/retry#/endpoint", everything) { worker, name in
            let failed = try await failure(of: worker)
            return try await worker.post("/v1/mutations/\(failed.id)/retry", #"{"endpoint":"/notes/\#(name)"}"#)
        },
        Guess("POST /v1/mutations/{id}/resolve#/payload", everything) { worker, name in
            let conflict = try await conflict(of: worker)
            let body = #"{"strategy":"client_wins","payload":{"about":"\#(name)"}}"#
            return try await worker.post("/v1/mutations/\(conflict.id)/resolve", body)
        },
    ]

    /// Guesses in a push, or in its preview.
    private static func pushes(_ path: String) -> [Guess] {
        func guess(
            _ member: String,
            _ kinds: [Belongings.Kind],
            _ drafts: @escaping @Sendable (SyncWorker, String) -> [Draft]
        )
            -> Guess
        {
            Guess("POST \(path)#/mutations/0/\(member)", kinds) { worker, name in
                try await worker.post(path, worker.envelope(drafts(worker, name)))
            }
        }
        return [
            Guess("POST \(path)#/device_id", [.device]) { worker, name in
                let body = worker.envelope([worker.create("note")])
                return try await worker.post(path, body.replacing(worker.device.lowercased, with: name))
            },
            guess("id", everything) { [$0.create("note").with("id", #""\#($1)""#)] },
            guess("idempotency_key", [.key]) { [$0.create("note").with("idempotency_key", #""\#($1)""#)] },
            guess("local_id", everything) { worker, name in
                [worker.create("task").with("local_id", #""\#(name)""#)]
            },
            guess("local_id", everything) { worker, name in
                let members = ["local_id": #""\#(name)""#]
                let payload = members.merging(["payload": "{}"]) { $1 }
                return [
                    worker.draft("update", "task", payload), worker.draft("replace", "task", payload),
                    worker.draft("delete", "task", members),
                ]
            },
            guess("server_id", [.server, .local]) { worker, name in
                ["update", "replace", "delete"].map { worker.change($0, server: name) }
            },
            guess("server_id", [.server, .local]) { worker, name in
                ["update", "replace", "delete"].map { worker.change($0, server: name, base: 1) }
            },
            guess("endpoint", everything) { worker, name in
                [worker.create("note").with("endpoint", #""/notes/\#(name)?of=\#(name)""#)]
            },
            guess("payload", everything) { worker, name in
                [worker.create("note", #"{"about":"\#(name)","deep":[{"a":["\#(name)"]}]}"#)]
            },
            guess("dependency_ids", everything) { worker, name in
                [worker.create("note").with("dependency_ids", #"["\#(name)"]"#)]
            },
        ]
    }

    /// The worker's own failed mutation.
    private static func failure(of worker: SyncWorker) async throws -> Draft {
        let draft = worker.change(server: UUID().lowercased)
        #expect(try await worker.push([draft]).statuses == ["failed"])
        return draft
    }

    /// The worker's own mutation in conflict.
    private static func conflict(of worker: SyncWorker) async throws -> Draft {
        let type = "page"
        let server = try #require(try await worker.push([worker.create(type)]).results[0]["server_id"]?.string)
        let other = try await SyncWorker(worker.gateway, organization: worker.organization, user: worker.user)
        _ = try await other.push([other.change("update", type, server: server)])
        let draft = worker.change("update", type, server: server, base: 1)
        #expect(try await worker.push([draft]).statuses == ["conflict"])
        return draft
    }
}

extension Draft {
    /// Returns the entry with another member.
    func with(_ name: String, _ value: String) -> Draft {
        var draft = self
        draft[name] = value
        return draft
    }
}
