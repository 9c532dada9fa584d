package import Foundation
package import JSONText

extension JSONValue {
    package var text: String { String(decoding: raw, as: UTF8.self) }
    package var namedTexts: [(name: String, text: String)] {
        members.map { $0.map { (name: $0.name.string, text: $0.value.text) } } ?? []
    }

    /// The elements of a member; empty if it is missing.
    package func list(_ name: StaticString) -> [JSONValue] { self[name]?.elements.map(Array.init) ?? [] }

    // MARK: - A push's answer, and its results

    package var results: [JSONValue] { list("results") }
    package var status: String? { self["status"]?.string }
    package var code: String? { self["error"]?["code"]?.string }
    package var rules: [String] { self["error"]?.list("errors").compactMap { $0["rule"]?.string } ?? [] }
    package var key: UUID? { self["idempotency_key"]?.uuid }
    package var serverID: String? { self["server_id"]?.string }
    package var version: Int64? { self["version"]?.int64 }
    package var isReplayed: Bool? { self["replayed"]?.bool }
    package var blockedBy: [UUID] { list("blocked_by").compactMap(\.uuid) }

    /// A result without the parts that may differ between a first answer and its repeats: an answer contains an entity
    /// once, so its place depends on the other results.
    package var outcome: String {
        let places: Set = ["current", "current_at", "current_omitted", "omitted"]
        return namedTexts.filter { $0.name != "replayed" && !places.contains($0.name) }.map { name, text in
            guard name == "error", let error = self["error"], error.kind == .object else { return "\(name)=\(text)" }
            let members = error.namedTexts.filter { !places.contains($0.name) }.map { "\($0.name)=\($0.text)" }
            return "\(name)={\(members.joined(separator: " "))}"
        }.joined(separator: " ")
    }

    // MARK: - A page

    package var changes: [JSONValue] { list("changes") }
    package var next: String? { self["next"]?.string }
    package var isUpToDate: Bool { self["up_to_date"]?.bool == true }
}
