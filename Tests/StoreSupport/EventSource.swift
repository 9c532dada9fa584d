import Foundation
import IngestFeature
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

/// A program that reports edits from another system.
package final class EventSource: Sendable {
    package let gateway: Gateway
    package let organization: Organization
    package let name: String

    package init(_ gateway: Gateway, _ organization: Organization, name: String = "crm") {
        self.gateway = gateway
        self.organization = organization
        self.name = name
    }

    /// Sends events, each as JSON text; `event_id` is added if it is missing.
    package func send(_ events: [String], through other: Gateway? = nil) async throws -> [JSONValue] {
        let body = #"{"events":[\#(events.joined(separator: ","))]}"#
        let bearer = IngestBearer(
            organization: organization.id,
            tokenID: UUID(),
            source: name,
            isFirstUse: false
        )
        let answer = try await (other ?? gateway).store.ingest.submit(
            try IngestRequest(body: Array(body.utf8), limits: IntakeLimits()),
            from: bearer
        )
        return try JSONTree(parsing: answer.json()).root.results
    }

    /// The results of events.
    package func results(_ events: [String], through other: Gateway? = nil) async throws -> [String] {
        try await send(events, through: other).map { $0["result"]?.string ?? "-" }
    }

    /// An event about a whole entity, as JSON text.
    package static func event(
        _ id: String,
        of type: String = "task",
        _ entity: String,
        version: Int64? = nil,
        _ document: String = #"{"title":"theirs"}"#,
        extra: [String: String] = [:]
    ) -> String {
        event(id, "upsert", of: type, entity, version: version, document, extra: extra)
    }

    /// An event as JSON text.
    package static func event(
        _ id: String,
        _ operation: String,
        of type: String = "task",
        _ entity: String,
        version: Int64? = nil,
        _ document: String = #"{"title":"theirs"}"#,
        extra: [String: String] = [:]
    ) -> String {
        var members = [
            "event_id": #""\#(id)""#, "operation": #""\#(operation)""#, "entity_type": #""\#(type)""#, "id": entity,
        ]
        if let version {
            members["version"] = "\(version)"
        } else {
            members["occurred_at"] = #""2026-11-20T07:00:00Z""#
        }
        if operation != "delete" { members["document"] = document }
        members.merge(extra) { $1 }
        return "{" + members.sorted { $0.key < $1.key }.map { #""\#($0.key)":\#($0.value)"# }.joined(separator: ",")
            + "}"
    }
}
