package import JSONText

/// The members of a JSON object, for reading and writing. Each member has a name, a form and a Swift property.
///
/// Reading an object fills a `Body`, and reports the errors of all members. An object is written from a `View`. `Body`
/// and `View` are the same type if responses contain the values that clients sent, for example for settings
/// (``TableObject``). The initial value of the body and the properties of the members determine the defaults, and how
/// null and absent members are treated.
///
/// Pushes, events, pulls, look-ups and feeds have hand-written readers and writers, because these must be fast. These
/// readers and writers compare names and write members without an allocation or an indirect call for each member.
package struct MemberTable<Body, View>: Sendable {
    /// The missing members that are listed in errors.
    package enum MissingMembers: Sendable {
        /// All missing members, after the other errors.
        case listed
        /// The first missing member, if the object has no other error.
        case alone
    }

    /// Information about an object that was read. The object's check receives this information.
    package struct ReadObject {
        package let pointer: String
        /// Whether no member has an error.
        package let isValid: Bool
        fileprivate let seen: Set<ByteExactString>

        package func has(_ member: String) -> Bool { seen.contains(ByteExactString(member)) }
    }

    package typealias Check = @Sendable (inout Body, ReadObject, inout MemberReport) -> Void

    private let members: [BodyMember<Body, View>]
    private let what: String
    private let unknown: String?
    private let missing: MissingMembers
    private let check: Check

    /// - Parameters:
    ///   - what: a description of the object for errors, such as `a webhook`. If the description has no colon, the
    ///     names of the members are appended.
    ///   - unknown: the text that follows the name of an unknown member in the error; nil for the default text.
    ///   - members: the members, in the order in which they are written.
    ///   - check: checks and completes the body after it was read.
    package init(
        _ what: String,
        unknown: String? = nil,
        missing: MissingMembers = .listed,
        @BodyMemberBuilder<Body, View> _ members: () -> [BodyMember<Body, View>],
        check: @escaping Check = { _, _, _ in }
    ) {
        self.members = members()
        let names = self.members.filter { $0.read != nil }.map(\.name)
        self.what = what.contains(":") ? what : "\(what): \(names.joined(separator: ", "))"
        self.unknown = unknown
        self.missing = missing
        self.check = check
    }

    /// Reads the body of a request.
    ///
    /// - Parameters:
    ///   - initial: the body with the values that absent members get.
    ///   - isOptional: whether an empty text is read as an empty object.
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with the problems of all members.
    package func read(_ json: [UInt8], into initial: Body, isOptional: Bool = false) throws(Problem) -> Body {
        if json.isEmpty, isOptional { return initial }
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: json)
        } catch {
            throw Problem(jsonError: error, limit: JSONLimits().maximumBytes)
        }
        if let defect = tree.defects.first { throw Problem(defect) }
        guard tree.root.kind == .object else {
            throw Problem(.invalidRequest, pointer: "", rule: Rule.memberType, "the body must be a JSON object")
        }
        var (body, report) = (initial, MemberReport())
        read(tree.root, at: "", hasNulls: true, into: &body, &report)
        try report.check()
        return body
    }

    /// Reads an object in a body.
    ///
    /// - Parameter hasNulls: whether null is a value. If false, null members are treated as absent.
    /// - Returns: whether the object has no error. The errors are added to the report.
    @discardableResult
    package func read(
        _ value: JSONValue,
        at pointer: String,
        hasNulls: Bool = false,
        into body: inout Body,
        _ report: inout MemberReport
    ) -> Bool {
        let before = report.count
        let seen = report.members(of: value, at: pointer, what, hasNulls: hasNulls) { report, name, place, value in
            guard let member = members.first(where: { $0.name == name }), let read = member.read else {
                return report.refuse(unknown: name, of: what, at: pointer, unknown)
            }
            if value.isNull, member.ignoresNull { return }
            read(value, MemberPlace(name: name, pointer: place), &body, &report)
        }
        guard let seen else { return false }
        for member in members where missing == .listed || report.count == before {
            guard let detail = member.requirement, !seen.contains(ByteExactString(member.name)) else { continue }
            report.refuse(JSONPointer(pointer).appending(member: member.name).text, Rule.required, detail)
        }
        check(&body, ReadObject(pointer: pointer, isValid: report.count == before, seen: seen), &report)
        return report.count == before
    }

    /// Reads an object in a body, and reports only its first error.
    ///
    /// - Throws: `invalid_request`.
    package func readToFirstError(
        _ value: JSONValue,
        at pointer: String,
        hasNulls: Bool = false,
        into body: inout Body
    ) throws(Problem) {
        var report = MemberReport()
        read(value, at: pointer, hasNulls: hasNulls, into: &body, &report)
        guard let first = report.problems.first else { return }
        throw Problem(.invalidRequest, pointer: first.pointer, rule: first.rule, first.detail)
    }

    /// Writes the members that responses have.
    package func write(_ view: View, to writer: inout JSONWriter) {
        for member in members { member.write?(view, &writer) }
    }
}

/// A JSON object with the same members in requests, in storage and in responses. Null is treated as absent.
package protocol TableObject: JSONWritable, Sendable {
    static var table: MemberTable<Self, Self> { get }

    /// Creates an object with the values that absent members get. The values of required members do not matter.
    init()
}

extension TableObject {
    /// Reads an object; nil if the object has errors. The errors are added to the report.
    package init?(_ value: JSONValue, at pointer: String, _ report: inout MemberReport) {
        var object = Self()
        guard Self.table.read(value, at: pointer, into: &object, &report) else { return nil }
        self = object
    }

    package func write(to writer: inout JSONWriter) { writer.object(writeMembers) }

    package func writeMembers(to writer: inout JSONWriter) { Self.table.write(self, to: &writer) }
}
