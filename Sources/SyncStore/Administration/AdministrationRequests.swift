import Foundation
import JSONText
import SyncModel

/// The body of `PUT /admin/organizations/{id}`.
struct OrganizationRequest {
    var name: String?
    var status: OrganizationStatus?
    /// JSON text of what is to change.
    var settings: [UInt8]?

    init(_ body: [UInt8]) throws(Problem) {
        var problems: [ProblemDetail] = []
        for (member, value) in try requestMembers(body) {
            switch member {
            case "name":
                if let text = value.string, (1...200).contains(text.unicodeScalars.count), !text.contains("\0") {
                    name = text
                } else {
                    problems.append(
                        .init(pointer: "/name", rule: Rule.range, detail: "name must have 1 to 200 characters")
                    )
                }
            case "status":
                status = value.string.flatMap(OrganizationStatus.init(rawValue:))
                if status == nil || status == .purging {
                    let detail = "status must be active or suspended; DELETE purges"
                    problems.append(.init(pointer: "/status", rule: Rule.range, detail: detail))
                }
            case "settings":
                let wrong = OrganizationSettings.problems(in: value, pointer: "/settings")
                problems += wrong
                settings = Array(value.raw)
            default:
                problems.append(.unknown(member, of: "an organization: name, status, settings"))
            }
        }
        if !problems.isEmpty { throw Problem(.validationFailed, problems[0].detail, errors: problems) }
    }
}

/// The body of `PUT /admin/organizations/{id}/entity-types/{name}`.
struct EntityTypeRequest {
    var idSpace: IDSpace?
    var visibility: Visibility?
    var defaultPriority: Int16?
    var isForwarded: Bool?
    /// JSON text of the whole of them.
    var relations: [UInt8]?

    init(_ body: [UInt8]) throws(Problem) {
        var problems: [ProblemDetail] = []
        for (member, value) in try requestMembers(body) {
            switch member {
            case "id_space":
                idSpace = value.string.flatMap(IDSpace.init(rawValue:))
                if idSpace == nil {
                    let detail = "id_space must be mapped, device or shared"
                    problems.append(.init(pointer: "/id_space", rule: Rule.range, detail: detail))
                }
            case "visibility":
                visibility = value.string.flatMap(Visibility.init(rawValue:))
                if visibility == nil {
                    let detail = "visibility must be organization or user"
                    problems.append(.init(pointer: "/visibility", rule: Rule.range, detail: detail))
                }
            case "default_priority":
                if let number = value.int64, (0...1_000).contains(number) {
                    defaultPriority = Int16(number)
                } else {
                    let detail = "default_priority must be an integer, 0 to 1000"
                    problems.append(.init(pointer: "/default_priority", rule: Rule.range, detail: detail))
                }
            case "upstream":
                isForwarded = value.bool
                if isForwarded == nil {
                    let detail = "upstream must be true (forwarded) or false (in the built-in store)"
                    problems.append(.init(pointer: "/upstream", rule: Rule.range, detail: detail))
                }
            case "relations":
                let wrong = Self.problems(inRelations: value)
                problems += wrong
                relations = Array(value.raw)
            default:
                problems.append(
                    .unknown(member, of: "an entity type: id_space, relations, visibility, default_priority, upstream")
                )
            }
        }
        if !problems.isEmpty { throw Problem(.validationFailed, problems[0].detail, errors: problems) }
    }

    /// Relations may lead to types that are not registered yet.
    private static func problems(inRelations value: JSONValue) -> [ProblemDetail] {
        func wrong(_ detail: String, _ rule: String = Rule.range, _ pointer: String = "/relations") -> ProblemDetail {
            ProblemDetail(pointer: pointer, rule: rule, detail: detail)
        }
        guard let members = value.members else {
            return [wrong(#"relations must be an object of members and entity types: {"folderId":"folder"}"#)]
        }
        let relations = members.map { ($0.name.string, $0.value) }
        guard relations.count <= Relation.limit else {
            return [wrong("a type may have \(Relation.limit) relations at most")]
        }
        return relations.compactMap { member, target in
            let pointer = JSONPointer("/relations").appending(member: member).text
            guard Relation.isValidMember(member) else {
                let bounds = "1 to \(Relation.maximumNameBytes) bytes without control characters"
                return wrong("a relation is a member of the type's documents, \(bounds)", Rule.range, pointer)
            }
            guard let name = target.string, EntityType.isValidName(name) else {
                let detail = "a relation leads to an entity type, whose name matches [a-z][a-z0-9_-]{0,63}"
                return wrong(detail, Rule.entityType, pointer)
            }
            return nil
        }
    }
}

extension ProblemDetail {
    /// A member that the object at `pointer` does not have.
    static func unknown(_ member: String, of what: String, at pointer: String = "") -> ProblemDetail {
        ProblemDetail(
            pointer: JSONPointer(pointer).appending(member: member).text,
            rule: Rule.unknownMember,
            detail: "'\(member)' is not a member of \(what)"
        )
    }
}

/// The members of a small JSON object; refuses what is not one, and duplicates.
func requestMembers(_ body: [UInt8]) throws(Problem) -> [(String, JSONValue)] {
    let tree: JSONTree
    do throws(JSONParseError) {
        tree = try JSONTree(parsing: body)
    } catch {
        throw Problem(jsonError: error, limit: JSONLimits().maximumBytes)
    }
    if let defect = tree.defects.first { throw Problem(defect) }
    guard let members = tree.root.members else {
        throw Problem(.invalidRequest, pointer: "", rule: Rule.memberType, "the body must be a JSON object")
    }
    return members.map { ($0.name.string, $0.value) }
}
