package import JSONText

/// The members of a body that settles mutations.
///
/// A small object without unknown members and duplicates.
package struct SettleBody {
    private var members: [(name: String, value: JSONValue)] = []

    /// - Parameters:
    ///   - limit: the most bytes of a body.
    ///   - names: the members that the body may have.
    ///   - isOptional: whether an empty body is an empty object.
    /// - Throws: `invalid_json`; `invalid_request` with a pointer to the error; `validation_failed` for a payload that
    ///   cannot be stored, as in a push.
    package init(_ body: [UInt8], limit: Int, names: [String], isOptional: Bool) throws(Problem) {
        if body.isEmpty, isOptional { return }
        let (tree, members) = try JSONTree.object(in: body, limit: limit)
        if let defect = tree.defects.first {
            guard defect.pointer.hasPrefix("/payload/") || defect.pointer == "/payload",
                defect.kind != .duplicateMember || defect.pointer != "/payload"
            else { throw Problem(defect) }
            throw Problem(.validationFailed, pointer: defect.pointer, rule: Rule.payload, defect.explanation)
        }
        for (name, value) in members {
            let name = name.string
            guard names.contains(name) else {
                let known = names.joined(separator: ", ")
                let detail =
                    "'\(UnknownMember.shown(name))' is an unknown member; known: \(known)"
                    + UnknownMember.hint(name, known: names)
                throw Self.problem(JSONPointer.member(name), Rule.unknownMember, detail)
            }
            self.members.append((name, value))
        }
    }

    /// A member's value; nil when it is absent or null.
    package subscript(name: String) -> JSONValue? {
        members.first { $0.name == name && !$0.value.isNull }?.value
    }

    /// A member whose value is one of a few names; nil when it is absent or null.
    package func choice<Choice: RawRepresentable<String> & CaseIterable>(_ name: String) throws(Problem) -> Choice? {
        guard let value = self[name] else { return nil }
        guard let choice = value.string.flatMap(Choice.init(rawValue:)) else {
            let words = Choice.allCases.map(\.rawValue).joined(separator: " or ")
            throw Self.problem("/\(name)", Rule.memberType, "\(name) must be \(words)")
        }
        return choice
    }

    package static func problem(_ pointer: String, _ rule: String, _ detail: String) -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: rule, detail)
    }
}
