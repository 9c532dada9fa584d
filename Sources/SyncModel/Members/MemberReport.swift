package import JSONText

/// Collects the errors of a body's members. The response lists these errors, up to ``ErrorBounds/perBody``.
package struct MemberReport: Sendable {
    package private(set) var problems: [ProblemDetail] = []
    /// The number of problems that are not listed, because they exceed ``ErrorBounds/perBody``.
    private var omitted = 0

    package init() {}

    /// The number of all problems, including problems that are not listed.
    package var count: Int { problems.count + omitted }

    package mutating func refuse(_ pointer: String, _ rule: String, _ detail: @autoclosure () -> String) {
        guard problems.count < ErrorBounds.perBody else {
            omitted += 1
            return
        }
        problems.append(ProblemDetail(pointer: pointer, rule: rule, detail: detail()))
    }

    /// Refuses an unknown member of the object at `pointer`.
    ///
    /// - Parameters:
    ///   - what: the object's name, a colon and the names of its members, as in `a push: device_id, mutations`.
    ///   - objection: the error, which follows the member's name; nil for the default text.
    package mutating func refuse(
        unknown member: String,
        of what: String,
        at pointer: String = "",
        _ objection: String? = nil
    ) {
        let isSuggesting = problems.count < UnknownMember.suggestions
        refuse(
            JSONPointer(pointer).appending(member: member).text,
            Rule.unknownMember,
            UnknownMember.detail(member, of: what, objection, isSuggesting: isSuggesting)
        )
    }

    /// Returns the value. If the value is nil, refuses the member.
    package mutating func value<Value>(
        _ value: Value?,
        at pointer: String,
        rule: String = Rule.range,
        _ detail: @autoclosure () -> String
    ) -> Value? {
        if value == nil { refuse(pointer, rule, detail()) }
        return value
    }

    /// Reads an object member by member. For members with fixed names, use a ``MemberTable``.
    ///
    /// - Parameters:
    ///   - what: a description of the object, for the error if the value is not an object.
    ///   - hasNulls: whether null is a value. If false, null members are treated as absent.
    ///   - read: reads a member at its JSON Pointer.
    /// - Returns: the names of the present members; nil if the value is not an object.
    @discardableResult
    package mutating func members(
        of value: JSONValue,
        at pointer: String,
        _ what: String,
        hasNulls: Bool = false,
        _ read: (inout MemberReport, _ member: String, _ pointer: String, JSONValue) -> Void
    ) -> Set<ByteExactString>? {
        guard let members = value.members else {
            refuse(pointer, Rule.memberType, "this must be an object: \(what)")
            return nil
        }
        var seen: Set<ByteExactString> = []
        for (name, value) in members where hasNulls || !value.isNull {
            let member = name.string
            let place = JSONPointer(pointer).appending(member: member).text
            if seen.insert(ByteExactString(member)).inserted {
                read(&self, member, place, value)
            } else {
                refuse(place, Rule.duplicateMember, "'\(member)' occurs twice")
            }
        }
        return seen
    }

    /// - Throws: `validation_failed` with all problems, if there are any.
    package func check() throws(Problem) {
        guard let first = problems.first else { return }
        var problem = Problem(.validationFailed, first.detail, errors: problems)
        problem.omittedErrors = omitted
        throw problem
    }
}
