import FoundationEssentials
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

    /// Deletes the organization and all its data.
    func purge(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        guard try await store.administration.purge(exchange.uuid(at: 0)) else { throw Refusal.notFound }
        return Answer(.noContent)
    }
}

extension OrganizationRow: AnswerBody {
    package func writeMembers(to writer: inout JSONWriter) { OrganizationUpdate.table.write(self, to: &writer) }
}

extension ExternalID: JSONWritable {
    package func write(to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("issuer", issuer.string)
            writer.member("external_id", id.string)
        }
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
    fileprivate static let table = MemberTable<Self, OrganizationRow>("an organization") {
        BodyMember("id", shown: \.id)
        BodyMember("name", .organizationName, into: \.name).shown(\.name)
        BodyMember("status", .organizationStatus, into: \.status).shown(\.status.rawValue)
        BodyMember("settings", read: readSettings).shown(\.settings)
        BodyMember("external_ids", .externalIDs, into: \.externalIDs).shown(\.externalIDs)
        BodyMember("created_at", shown: \.createdAt.rfc3339)
        BodyMember("updated_at", shown: \.updatedAt.rfc3339)
    }

    /// Reads the body of `PUT /admin/organizations/{id}`.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers.
    package init(body: [UInt8]) throws(Problem) {
        self = try Self.table.read(body, into: Self())
    }

    @Sendable
    private static func readSettings(
        _ value: JSONValue,
        _ place: MemberPlace,
        _ update: inout Self,
        _ report: inout MemberReport
    ) {
        guard value.kind == .object else {
            return report.refuse(place.pointer, Rule.memberType, "settings must be an object")
        }
        _ = OrganizationSettings(value, at: place.pointer, &report)
        // the JSON text is kept, because null resets a setting to its default
        update.settings = Array(value.raw)
        update.enablesUserKeys = value["user_keys"]?.bool == true
        update.setsOrder = value["order"] != nil
    }
}

extension MemberKind<String> {
    fileprivate static var organizationName: Self {
        text("must have 1 to 200 characters") { (1...200).contains($0.unicodeScalars.count) && !$0.contains("\0") }
    }
}

extension MemberKind<OrganizationStatus> {
    fileprivate static var organizationStatus: Self {
        Self("must be active or suspended; DELETE purges") { value in
            value.string.flatMap(OrganizationStatus.init(rawValue:)).flatMap { $0 == .purging ? nil : $0 }
        }
    }
}

extension MemberKind<[ExternalID]> {
    /// A list of `{"issuer", "external_id"}` without duplicates.
    fileprivate static var externalIDs: Self {
        Self { value, place, report in
            let detail = "external_ids must be a list of objects with issuer and external_id"
            guard let elements = report.value(value.elements, at: place.pointer, rule: Rule.memberType, detail) else {
                return nil
            }
            let count = elements.count
            guard count <= Administration.maximumExternalIDs else {
                let detail = "at most \(Administration.maximumExternalIDs) external ids, got \(count)"
                report.refuse(place.pointer, Rule.range, detail)
                return nil
            }
            let table = IssuedName.table("an external id", "external_id")
            var ids: [ExternalID] = []
            var seen: Set<ExternalID> = []
            for (index, element) in elements.enumerated() {
                let pointer = "\(place.pointer)/\(index)"
                guard element.kind == .object else {
                    let detail = "an external id must be an object with issuer and external_id"
                    report.refuse(pointer, Rule.memberType, detail)
                    continue
                }
                var name = IssuedName()
                guard table.read(element, at: pointer, hasNulls: true, into: &name, &report) else { continue }
                let id = ExternalID(issuer: name.issuer, id: name.name)
                if seen.insert(id).inserted {
                    ids.append(id)
                } else {
                    report.refuse(pointer, Rule.duplicateMember, "the list contains this name of the issuer twice")
                }
            }
            return ids
        }
    }
}
