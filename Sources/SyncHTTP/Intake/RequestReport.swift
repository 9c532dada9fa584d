package import JSONText
package import SyncModel

/// The defects of a small body's members, collected, so that an operator sees all of them.
package struct RequestReport {
    package var problems: [ProblemDetail] = []
    /// Problems beyond ``ErrorBounds/perBody``, which are counted only.
    private var omitted = 0

    package init() {}

    /// Reads a JSON object without duplicates, member by member.
    ///
    /// - Parameters:
    ///   - what: the object and its members, for the problem about an unknown member.
    ///   - read: reads a member; false for an unknown one.
    ///   - then: checks the values that were read.
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with all problems gathered.
    package static func read(
        _ body: [UInt8],
        of what: String,
        _ read: (inout RequestReport, _ member: String, JSONValue) -> Bool,
        then: (inout RequestReport) -> Void = { _ in }
    ) throws(Problem) {
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
        var report = RequestReport()
        for (name, value) in members where !read(&report, name.string, value) {
            report.refuse(unknown: name.string, of: what)
        }
        then(&report)
        if let first = report.problems.first {
            var problem = Problem(.validationFailed, first.detail, errors: report.problems)
            problem.omittedErrors = report.omitted
            throw problem
        }
    }

    package mutating func refuse(_ pointer: String, _ rule: String, _ detail: String) {
        guard problems.count < ErrorBounds.perBody else {
            omitted += 1
            return
        }
        problems.append(ProblemDetail(pointer: pointer, rule: rule, detail: detail))
    }

    /// Refuses a member that the object at `pointer` does not have.
    package mutating func refuse(unknown member: String, of what: String, at pointer: String = "") {
        let pointer = JSONPointer(pointer).appending(member: member).text
        let isSuggesting = problems.count < UnknownMember.suggestions
        refuse(pointer, Rule.unknownMember, UnknownMember.detail(member, of: what, isSuggesting: isSuggesting))
    }

    /// Returns the value, and refuses the member if it is nil.
    package mutating func value<Value>(_ value: Value?, at pointer: String, _ detail: String) -> Value? {
        if value == nil { refuse(pointer, Rule.range, detail) }
        return value
    }
}
