import JSONText
import SyncModel
import Testing

/// One table reads the members of a JSON object, with all of their errors, and writes them.
@Suite struct MemberTableTests {
    private enum Color: String, Sendable, CaseIterable, JSONWritable {
        case red
        case green
        case blue
    }

    /// A request, whose view in responses is another type.
    private struct BoxChange: Sendable {
        var name: String?
        var size: Int16 = 3
        var color = Change<Color>.keep
        var note: String?
        var isOpen = false
    }

    private struct Box: Sendable {
        var id = Int64(7)
        var name = "n"
        var color: Color? = Color.green
    }

    private static func table(missing: MemberTable<BoxChange, Box>.MissingMembers) -> MemberTable<BoxChange, Box> {
        MemberTable("a box", missing: missing) {
            BodyMember("id", shown: \.id)
            BodyMember("name", .text("must be short") { $0.utf8.count < 5 }, into: \.name).required().shown(\.name)
            BodyMember("size", .integer(1...9), into: \.size).required("size is missing; measure it")
            BodyMember("color", .choice(), into: \.color).shown(\.color)
            BodyMember("note", .text("must be a note") { _ in true }, into: \.note).nullable
            BodyMember("open", .bool(), into: \.isOpen)
        } check: { box, object, report in
            if object.isValid, object.has("open"), box.isOpen { report.refuse("/open", Rule.range, "boxes are closed") }
        }
    }

    /// Applies a change to green, whose default is red.
    private static func applied(_ change: Change<Color>) -> Color {
        var color = Color.green
        change.apply(to: &color, default: .red)
        return color
    }

    private func read(
        _ json: String,
        missing: MemberTable<BoxChange, Box>.MissingMembers = .listed
    ) throws(Problem) -> BoxChange {
        try Self.table(missing: missing).read(Array(json.utf8), into: BoxChange())
    }

    /// The errors of a body, each as `pointer rule detail`.
    private func errors(
        _ json: String,
        missing: MemberTable<BoxChange, Box>.MissingMembers = .listed
    ) throws -> [String] {
        let problem = try #require(throws: Problem.self) { try read(json, missing: missing) }
        #expect(problem.code == .validationFailed && problem.detail == problem.errors.first?.detail)
        return problem.errors.map { "\($0.pointer) \($0.rule) \($0.detail)" }
    }

    // MARK: - Reading

    @Test func `reads members into properties, and leaves those of absent members`() throws {
        let box = try read(#"{"size": 9.0, "name": "a", "open": false, "color": "blue"}"#)
        #expect(box.name == "a" && box.size == 9 && box.note == nil && !box.isOpen)
        #expect(Self.applied(box.color) == .blue)
        let other = try read(#"{"name": "b", "size": 1}"#)
        #expect(Self.applied(other.color) == .green)
    }

    @Test func `null resets a changeable value and is absent for a nullable one`() throws {
        let box = try read(#"{"name": "a", "size": 1, "color": null, "note": null}"#)
        #expect(Self.applied(box.color) == .red && box.note == nil)
        #expect(try errors(#"{"name": null, "size": 1}"#) == ["/name member_range name must be short"])
    }

    @Test func `lists all errors in the order of the text, then missing members in the order of the table`() throws {
        let found = try errors(#"{"colour": "red", "color": "pink", "open": 1, "a/b": 2}"#)
        #expect(
            found == [
                "/colour member_unknown 'colour' is not a member of a box: name, size, color, note, open; "
                    + "is 'color' meant?",
                "/color member_range color must be red, green or blue",
                "/open member_type open must be true or false",
                "/a~1b member_unknown 'a/b' is not a member of a box: name, size, color, note, open",
                "/name member_required name is required",
                "/size member_required size is missing; measure it",
            ]
        )
    }

    @Test func `reports the first missing member alone if the table requires it`() throws {
        #expect(try errors("{}", missing: .alone) == ["/name member_required name is required"])
        let found = try errors(#"{"size": 0}"#, missing: .alone)
        #expect(found == ["/size member_range size must be an integer, 1 to 9"])
    }

    @Test(arguments: ["0", "10", "1.5", "99999999999999999999", #""1""#, "null"])
    func `rejects a number that does not fit`(_ number: String) throws {
        let found = try errors(#"{"name": "a", "size": \#(number)}"#)
        #expect(found == ["/size member_range size must be an integer, 1 to 9"])
    }

    @Test func `checks the whole object after its members`() throws {
        #expect(try errors(#"{"open": true, "name": "a", "size": 1}"#) == ["/open member_range boxes are closed"])
        #expect(try errors(#"{"open": true, "name": "a"}"#) == ["/size member_required size is missing; measure it"])
    }

    @Test func `members that are only shown are unknown in requests`() throws {
        let found = try errors(#"{"name": "a", "size": 1, "id": 7}"#)
        #expect(found == ["/id member_unknown 'id' is not a member of a box: name, size, color, note, open"])
    }

    @Test(arguments: [
        ("[", ProblemCode.invalidJSON, "", ""),
        ("[1]", ProblemCode.invalidRequest, "", "the body must be a JSON object"),
        (#"{"name": "a", "name": "b"}"#, ProblemCode.invalidRequest, "/name", ""),
        ("", ProblemCode.invalidJSON, "", ""),
    ])
    func `rejects other bodies`(_ json: String, _ code: ProblemCode, _ pointer: String, _ detail: String) throws {
        let problem = try #require(throws: Problem.self) { try read(json) }
        #expect(problem.code == code)
        if !pointer.isEmpty { #expect(problem.errors.map(\.pointer) == [pointer]) }
        if !detail.isEmpty { #expect(problem.detail == detail) }
    }

    @Test func `an empty body has no members if it is optional`() throws {
        #expect(try Self.table(missing: .listed).read([], into: BoxChange(), isOptional: true).name == nil)
    }

    @Test func `lists a limited number of errors and counts the others`() throws {
        let members = (0..<300).map { #""m\#($0)": 1"# }.joined(separator: ",")
        let problem = try #require(throws: Problem.self) { try read("{\(members)}") }
        #expect(problem.errors.count == ErrorBounds.perBody)
        // the number includes the errors about two missing members
        #expect(problem.omittedErrors == 302 - ErrorBounds.perBody)
    }

    // MARK: - Writing

    @Test func `writes the shown members in the order of the table, and nil as null`() {
        let table = Self.table(missing: .listed)
        let text = { (box: Box) in String(decoding: JSONWriter.object { table.write(box, to: &$0) }, as: UTF8.self) }
        #expect(text(Box()) == #"{"id":7,"name":"n","color":"green"}"#)
        #expect(text(Box(color: nil)) == #"{"id":7,"name":"n","color":null}"#)
    }

    // MARK: - Objects with one form

    /// An object in settings.
    private struct Lid: TableObject, Equatable {
        var size = 1
        var label: String?
        var colors: [Color] = []

        static let table = MemberTable<Self, Self>("a lid") {
            BodyMember("size", .integer(1...9, subject: "this"), as: \.size).required()
            BodyMember("label", .text("must be a text") { _ in true }, as: \.label)
            BodyMember("colors", MemberKind { colors($0, at: $1.pointer, &$2) }, as: \.colors)
                .omitted { $0.colors.isEmpty }
        }

        private static func colors(_ value: JSONValue, at pointer: String, _ report: inout MemberReport) -> [Color]? {
            guard let elements = value.elements else {
                report.refuse(pointer, Rule.memberType, "colors must be an array")
                return nil
            }
            return elements.enumerated().compactMap {
                MemberKind<Color>.oneOf.read($1, at: "\(pointer)/\($0)", &report)
            }
        }
    }

    private func readLid(_ json: String) throws -> (lid: Lid?, errors: [String]) {
        var report = MemberReport()
        let lid = Lid(try JSONTree(parsing: Array(json.utf8)).root, at: "/lid", &report)
        return (lid, report.problems.map { "\($0.pointer) \($0.detail)" })
    }

    @Test(arguments: [
        #"{"size":2}"#, #"{"size":9,"label":"top"}"#, #"{"size":1,"label":"","colors":["red","blue"]}"#,
    ])
    func `an object is written as it was read`(_ json: String) throws {
        let (lid, errors) = try readLid(json)
        let writable = try #require(lid)
        var writer = JSONWriter()
        writable.write(to: &writer)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == json)
        #expect(errors.isEmpty)
    }

    @Test func `null is absent in an object with one form`() throws {
        #expect(try readLid(#"{"size": 2, "label": null, "colors": null, "other": null}"#).lid == Lid(size: 2))
        let (lid, errors) = try readLid(#"{"size": null}"#)
        #expect(lid == nil && errors == ["/lid/size size is required"])
    }

    @Test func `errors of an object have pointers into the body`() throws {
        let (lid, errors) = try readLid(#"{"size": 0, "colors": ["red", "pink"], "size": 1, "sizes": 1}"#)
        #expect(lid == nil)
        #expect(
            errors == [
                "/lid/size this must be an integer, 1 to 9",
                "/lid/colors/1 this must be one of red, green, blue",
                "/lid/size 'size' occurs twice",
                "/lid/sizes 'sizes' is not a member of a lid: size, label, colors; is 'size' meant?",
            ]
        )
        #expect(try readLid("[]").errors == ["/lid this must be an object: a lid: size, label, colors"])
    }

    @Test func `the body of settings resets to defaults and ignores unknown stored values`() throws {
        let stored = #"{"on_failure": "halt", "stale_after_days": 99999, "later": 1, "user_keys": true}"#
        let settings = OrganizationSettings(stored: try JSONTree(parsing: Array(stored.utf8)).root)
        #expect(settings.onFailure == .halt && settings.staleAfterDays == 14 && settings.userKeys)
        var report = MemberReport()
        let json = #"{"user_key": true, "requests_per_second": 0, "provisioning": null}"#
        _ = OrganizationSettings(try JSONTree(parsing: Array(json.utf8)).root, at: "/settings", &report)
        #expect(
            report.problems.map(\.detail) == [
                "'user_key' is not a setting; is 'user_keys' meant?",
                "requests_per_second must be an integer, 1 to 1000000",
            ]
        )
    }
}
