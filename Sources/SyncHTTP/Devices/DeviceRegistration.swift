import JSONText
import SyncModel

/// The body of a registration: `{}`, or none.
struct DeviceRegistration: Sendable {
    /// - Throws: `invalid_json`, or `invalid_request` with a pointer to the defect.
    init(body: [UInt8], limit: Int) throws(Problem) {
        if body.isEmpty { return }
        let (tree, members) = try JSONTree.object(in: body, limit: limit)
        if let defect = tree.defects.first { throw Problem(defect) }
        for (name, _) in members {
            let pointer = JSONPointer().appending(member: name.string).text
            throw Self.problem(pointer, Rule.unknownMember, "'\(name.string)' is not a member of a registration")
        }
    }

    private static func problem(_ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: rule, detail)
    }
}
