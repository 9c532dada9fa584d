import Foundation
import HTTPTypes
package import JSONText
import SyncHTTP
package import SyncModel
import SyncStore

/// `/admin/organizations` and `/admin/organizations/{id}`.
struct OrganizationEndpoints: Sendable {
    let store: Store
    let bodies: BodyReader

    func list(_ exchange: Exchange) async throws -> Answer {
        let query = try URLQuery(of: exchange, allowing: ["search", "counts", "limit", "cursor"])
        let limit = try query.limit(default: 100)
        let cursor = try query.text("cursor").map { text throws(Problem) in
            guard let id = UUID(parsing: text) else { throw .invalidParameter("cursor is invalid") }
            return id
        }
        let search = try query.plainText("search", atMost: Administration.longestSearch)
        let page =
            if let search {
                try await store.administration.organizations(like: search, limit: limit, after: cursor)
            } else {
                try await store.administration.organizations(limit: limit, after: cursor)
            }
        let counts =
            try query.flag("counts") ? try await store.stuckCounts.counts(of: page.organizations.map(\.id)) : nil
        return Answer(.ok) { writer in
            writer.member("organizations", page.organizations) { writer, organization in
                writer.object { writer in
                    organization.writeMembers(to: &writer)
                    if let counts { writer.member("counts", counts[organization.id]) }
                }
            }
            writer.member("next", page.next)
        }
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return try .found(await store.administration.organization(exchange.uuid(at: 0)))
    }

    func write(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        let id = try exchange.uuid(at: 0)
        return try await bodies.withBody(of: exchange) { body in
            try .written(await store.administration.put(id, OrganizationUpdate(body: body)))
        }
    }

    /// Deletes the organization with all its data.
    func purge(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard try await store.administration.purge(exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }
}

extension OrganizationRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("id", id)
        writer.member("name", name)
        writer.member("status", status.rawValue)
        writer.name("settings")
        settings.write(to: &writer)
        writer.member("external_ids", externalIDs)
        writer.member("created_at", createdAt.rfc3339)
        writer.member("updated_at", updatedAt.rfc3339)
    }
}

extension ExternalID: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("issuer", issuer.string)
        writer.member("external_id", id.string)
    }
}

extension OrganizationCounts: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) {
        writer.member("failed", failed)
        writer.member("conflict", conflict)
        writer.member("halted_lanes", haltedLanes)
    }
}

extension OrganizationUpdate {
    /// Reads the body of `PUT /admin/organizations/{id}`.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package init(body: [UInt8]) throws(Problem) {
        var update = OrganizationUpdate()
        try RequestReport.read(body, of: "an organization: name, status, settings, external_ids") {
            report,
            member,
            value in
            switch member {
            case "name":
                let text = value.string.flatMap { text in
                    (1...200).contains(text.unicodeScalars.count) && !text.contains("\0") ? text : nil
                }
                update.name = report.value(text, at: "/name", "name must have 1 to 200 characters")
            case "status":
                let status = value.string.flatMap(OrganizationStatus.init(rawValue:))
                update.status = report.value(
                    status == .purging ? nil : status,
                    at: "/status",
                    "status must be active or suspended; DELETE purges"
                )
            case "settings":
                report.problems += OrganizationSettings.problems(in: value, pointer: "/settings")
                update.settings = Array(value.raw)
                update.wantsUserKeys = value["user_keys"]?.bool == true
            case "external_ids": update.externalIDs = report.externalIDs(value)
            default: return false
            }
            return true
        }
        self = update
    }
}
