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

    init(_ body: [UInt8]) throws(Problem) {
        var problems: [ProblemDetail] = []
        for (member, value) in try requestMembers(body) {
            switch member {
            case "id_space":
                idSpace = value.string.flatMap(IDSpace.init(rawValue:))
                if idSpace == nil {
                    let detail = "id_space must be mapped or shared"
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
                if value.members?.isEmpty != true {
                    let detail = "only types with device ids have relations; leave it out or empty"
                    problems.append(.init(pointer: "/relations", rule: Rule.range, detail: detail))
                }
            default:
                problems.append(
                    .unknown(member, of: "an entity type: id_space, relations, visibility, default_priority, upstream")
                )
            }
        }
        if !problems.isEmpty { throw Problem(.validationFailed, problems[0].detail, errors: problems) }
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
