import Foundation
import JSONText
import Postgres
import StoreSupport
import SyncHTTP
import SyncModel
import Testing

@testable import AdministrationFeature
@testable import SyncStore

/// Entities of a type with `visibility: "user"` exist only for their creator. Other users receive the same answer as
/// for an id that never existed, byte for byte except for the ids.
@Suite struct PrivateEntityTests {
    /// Two users of an organization with private types of the built-in store. The first user has a document and a
    /// tombstone.
    fileprivate struct Fixture {
        let ada: Phone
        let gateway: Gateway
        let organization: Organization
        static let types = ["diary", "note"]

        init() async throws {
            ada = try await Phone.new(#"{"on_conflict":"continue"}"#)
            (gateway, organization) = (ada.gateway, ada.organization)
            for (type, space) in [("diary", "shared"), ("note", "mapped")] {
                let body = #"{"id_space":"\#(space)","visibility":"user","upstream":false}"#
                _ = try await gateway.store.administration.putEntityType(
                    type,
                    in: organization.id,
                    EntityTypeUpdate(body: Array(body.utf8))
                )
            }
        }

        /// Returns two ids of Ada's entities of each type: an existing and a deleted entity.
        func make() async throws -> [(type: String, id: String)] {
            var ids: [(String, String)] = []
            for type in Self.types {
                for isDeleted in [false, true] {
                    let shared = type == "diary" ? #""\#(UUID().lowercased)""# : nil
                    let create = ada.entry(
                        "create",
                        type,
                        local: shared == nil ? UUID() : nil,
                        server: shared,
                        payload: #"{"secret":"s3cr3t"}"#
                    )
                    let id = try #require(try await ada.push([create]).results[0].serverID)
                    if isDeleted { try await ada.push([ada.entry("delete", type, server: #""\#(id)""#)]) }
                    ids.append((type, id))
                }
            }
            return ids
        }

        /// The answers that a new phone of a user receives about writes of one entity: the push, its preview, the
        /// mutations read back, the results of settling them, and the events. Ids and positions of the phone or the
        /// entity are removed.
        func answers(_ user: UUID, _ type: String, _ id: String) async throws -> [String] {
            let variants: [(String, String?, Int?, String?)] = ["update", "replace", "delete"].flatMap { operation in
                [nil, 0, 1, 2, 9].flatMap { base in
                    ["manual", "server_wins", "client_wins"].map { strategy in
                        (operation, operation == "delete" ? nil : #"{"x":1}"#, base, strategy)
                    }
                }
            }
            var texts: [String] = []
            for (operation, payload, base, strategy) in variants {
                let phone = Phone(gateway, organization, user: user)
                var entry = phone.entry(operation, type, server: #""\#(id)""#, payload: payload)
                entry.extra["base_version"] = base.map(String.init)
                entry.extra["conflict_resolution"] = strategy.map { #""\#($0)""# }
                let preview = try await phone.preview([entry])
                let push = try await phone.push([entry])
                let read = try await phone.read(entry.id)
                let name = "\(type) \(operation) \(base.map(String.init) ?? "-") \(strategy ?? "-"): "
                var parts = [preview.text, push["results"]?.text ?? "", read.text]
                if read.status == "failed" {
                    parts.append(try await phone.retry(entry.id)?.text ?? "-")
                    parts.append(try await phone.discard(entry.id)?.text ?? "-")
                }
                let own = [entry.id, entry.key, phone.device, phone.user].map(\.lowercased)
                texts.append(name + parts.map { Self.cut($0, own + [id]) }.joined(separator: "\n"))
            }
            return texts
        }

        private static func cut(_ text: String, _ ids: [String]) -> String {
            ids.reduce(text) { $0.replacingOccurrences(of: $1, with: "…") }
        }
    }

    @Test func `answers about another user's entity equal answers about an ID that never existed`() async throws {
        let fixture = try await Fixture()
        for (type, id) in try await fixture.make() {
            let before = try await fixture.rows()
            // two users without history, so that only the id differs
            let hers = try await fixture.answers(UUID(), type, id)
            let never = try await fixture.answers(UUID(), type, UUID().lowercased)
            #expect(hers.count == never.count)
            for (hers, never) in zip(hers, never) { #expect(hers == never) }
            #expect(!hers.joined().contains("s3cr3t"))
            #expect(try await fixture.rows() == before, "nothing was written")
        }
    }

    /// A create under a shared id in use must be refused; the answer reveals only that the id is in use.
    @Test func `a create under an ID in use reveals only that the ID is in use`() async throws {
        let fixture = try await Fixture()
        let ids = try await fixture.make().filter { $0.type == "diary" }
        var answers: Set<String> = []
        for (type, id) in ids {
            let bob = Phone(fixture.gateway, fixture.organization)
            let create = bob.entry("create", type, server: #""\#(id)""#)
            let result = try await bob.push([create]).results[0]
            #expect(result.status == "conflict" && result["error"]?["current"] == nil)
            #expect(result["version"]?.isNull == true && result["etag"]?.isNull == true)
            answers.insert(result["error"]?.text ?? "")
            let discarded = try #require(try await bob.discard(create.id))
            #expect(discarded["error"]?["current"] == nil && !discarded.text.contains("s3cr3t"))
        }
        #expect(answers.count == 1, "the answer does not depend on whether the entity exists or was deleted")
    }
}

extension PrivateEntityTests.Fixture {
    fileprivate func rows() async throws -> [String] {
        let rows = try await gateway.read(
            "SELECT concat_ws(' ', entity_type, id, version, is_deleted, updated_by) FROM entities ORDER BY 1"
        )
        return try (0..<rows.count).map { try rows.read($0, 0, as: String.self) }
    }
}

extension Phone {
    /// The results of a preview.
    func preview(_ entries: [Entry]) async throws -> JSONValue {
        let list = entries.map(\.json).joined(separator: ",")
        let body = #"{"device_id":"\#(device.lowercased)","mutations":[\#(list)]}"#
        let push = try PushRequest(body: Array(body.utf8), limits: IntakeLimits())
        let preview = try await gateway.store.previews
            .preview(push, organization: organization, user: user, isStrict: false)
        return try #require(try JSONTree(parsing: preview.json()).root["results"])
    }
}
