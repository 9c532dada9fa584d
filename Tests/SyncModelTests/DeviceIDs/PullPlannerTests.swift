import SyncModel
import Testing

@Suite struct FreeLocalIDsTests {
    @Test func `skips numbers in use`() {
        let free = FreeLocalIDs(from: 5, taken: [5, 7, 8, 20], highest: 20)
        #expect(free.first(0) == [])
        #expect(free.first(4) == [6, 9, 10, 11])
        #expect(FreeLocalIDs(from: 5, highest: nil).first(3) == [5, 6, 7])
        #expect(FreeLocalIDs(from: -2, taken: [-2, 0], highest: 0).first(3) == [-1, 1, 2])
    }

    @Test func `without a counter, numbers continue after the highest and never below one`() {
        #expect(FreeLocalIDs(from: nil, highest: nil).first(2) == [1, 2])
        #expect(FreeLocalIDs(from: nil, highest: 41).first(2) == [42, 43])
        #expect(FreeLocalIDs(from: nil, highest: -7).first(2) == [1, 2])
        #expect(FreeLocalIDs.next(after: nil) == 1)
        #expect(FreeLocalIDs.next(after: .max) == nil)
    }

    @Test func `does not assign numbers beyond the examined range`() {
        // first the gaps in the examined range, then the numbers after the highest
        let free = FreeLocalIDs(from: 1, taken: [1, 3, 4], isWhole: false, highest: 900)
        #expect(free.first(1) == [2])
        #expect(free.first(3) == [2, 901, 902])
        #expect(FreeLocalIDs(from: 1, taken: [1], isWhole: false, highest: .max).first(1) == nil)
    }

    @Test func `numbers end at the 64-bit limit`() {
        #expect(FreeLocalIDs(from: .max, highest: nil).first(1) == [.max])
        #expect(FreeLocalIDs(from: .max, highest: nil).first(2) == nil)
        #expect(FreeLocalIDs(from: .max - 1, taken: [.max], highest: .max).first(1) == [.max - 1])
        #expect(FreeLocalIDs(from: .max, taken: [.max], highest: .max).first(1) == nil)
        #expect(FreeLocalIDs(from: .min, taken: [.min], highest: .min).first(2) == [.min + 1, .min + 2])
        #expect(FreeLocalIDs(from: nil, highest: .max).first(1) == nil)
        #expect(FreeLocalIDs(from: nil, highest: .max).first(0) == [])
    }
}

@Suite struct PullPlannerTests {
    private static func id(_ text: String) -> ServerID { ServerID(text: text, isInteger: false) }

    private static func assign(
        _ planner: inout PullPlanner,
        highest: [String: Int64] = [:]
    ) throws(Problem) {
        planner.chooseAssignees()
        let open = planner.open
        let free = open.map { (ByteExactString($0.type), FreeLocalIDs(from: $0.base, highest: highest[$0.type])) }
        try planner.assign(Dictionary(uniqueKeysWithValues: free))
    }

    private static func answered(_ planner: PullPlanner) -> [String] {
        planner.nextLocalIDs.map { "\($0.type) \($0.next.map(String.init) ?? "-")" }
    }

    @Test func `assigns numbers to changes in the feed's order, and then to relations`() throws {
        var planner = PullPlanner(counters: ["task": 7])
        let first = planner.name(Self.id("a"), of: "task")
        let folder = planner.name(Self.id("f"), of: "folder")
        let ahead = planner.name(Self.id("later"), of: "task")
        planner.add(first, isDeleted: false, targets: [folder, ahead, folder])
        let second = planner.name(Self.id("b"), of: "task")
        planner.add(second, isDeleted: false, targets: [ahead, first])
        planner.add(nil, isDeleted: false)
        try Self.assign(&planner)
        #expect([first, second, ahead, folder].map { planner.number(of: $0) } == [7, 8, 9, 1])
        #expect(
            planner.assignments.map { "\($0.id.entityType) \($0.id.number) \($0.entity.text)" }
                == ["task 7 a", "task 8 b", "task 9 later", "folder 1 f"]
        )
        #expect(Self.answered(planner) == ["folder 2", "task 10"])
    }

    @Test func `a known entity keeps its number, or the lowest if it has several`() throws {
        var planner = PullPlanner(counters: [:])
        let known = planner.name(Self.id("a"), of: "task")
        planner.add(known, isDeleted: false)
        let other = planner.name(Self.id("f"), of: "folder")
        let second = planner.name(Self.id("b"), of: "task")
        planner.add(second, isDeleted: false, targets: [other])
        // the places 0, 1 and 2 are those of a, b and f
        planner.addLocalIDs([9, 4, 6, 3, 5], at: [0, 0, 0, 2, 1])
        planner.addLocalIDs([1], at: [3])
        planner.addLocalIDs([1], at: [-1])
        try Self.assign(&planner, highest: ["task": 9])
        #expect([known, second, other].map { planner.number(of: $0) } == [4, 5, 3])
        #expect(planner.assignments.isEmpty)
        #expect(Self.answered(planner) == ["folder 4", "task 10"], "after the highest number, not the page's")
    }

    @Test func `omits entities deleted before the device received them unless a relation references them`() throws {
        var planner = PullPlanner(counters: ["task": 1])
        let gone = planner.name(Self.id("gone"), of: "task")
        let named = planner.name(Self.id("named"), of: "task")
        let had = planner.name(Self.id("had"), of: "task")
        planner.add(gone, isDeleted: true)
        planner.add(named, isDeleted: true)
        planner.add(had, isDeleted: true)
        planner.add(nil, isDeleted: true)
        planner.add(nil, isDeleted: false, targets: [named])
        planner.addLocalIDs([3], at: [Int64(had.entity)])
        try Self.assign(&planner)
        #expect((0..<5).map { planner.isShown($0) } == [false, true, true, true, true])
        #expect(planner.number(of: named) == 1)
        #expect(planner.number(of: gone) == nil)
    }

    @Test func `returns the sent counters and never decreases them`() throws {
        var planner = PullPlanner(counters: ["task": 50, "note": -3, "other": nil, "folder": .max])
        let known = planner.name(Self.id("a"), of: "task")
        planner.add(known, isDeleted: false)
        planner.addLocalIDs([7], at: [Int64(known.entity)])
        let shown = planner.name(Self.id("n"), of: "note")
        planner.add(shown, isDeleted: false)
        try Self.assign(&planner, highest: ["other": 11])
        #expect(Self.answered(planner) == ["folder \(Int64.max)", "note -2", "other 12", "task 50"])
    }

    @Test func `assigns the last number, and then refuses further pulls`() throws {
        var planner = PullPlanner(counters: ["task": .max])
        planner.add(planner.name(Self.id("a"), of: "task"), isDeleted: false)
        try Self.assign(&planner)
        #expect(planner.assignments.map(\.id.number) == [.max])
        #expect(Self.answered(planner) == ["task -"])
        planner = PullPlanner(counters: ["task": .max])
        for id in ["a", "b"] { planner.add(planner.name(Self.id(id), of: "task"), isDeleted: false) }
        let problem = #expect(throws: Problem.self) { try Self.assign(&planner) }
        #expect(problem?.code == .validationFailed)
        #expect(problem?.errors.map(\.pointer) == ["/next_local_ids/task"])
    }

    @Test func `a type without visible changes needs no numbers`() throws {
        var planner = PullPlanner(counters: [:])
        planner.add(planner.name(Self.id("gone"), of: "task"), isDeleted: true)
        planner.chooseAssignees()
        #expect(planner.open.isEmpty)
        try planner.assign([:])
        #expect(Self.answered(planner).isEmpty)
    }
}

@Suite struct PageStateTests {
    @Test func `confirms a page once and accepts old cursors`() {
        let pages: [(page: Int64, isOutstanding: Bool)] = [(5, false), (7, true), (8, true)]
        #expect(PageState(of: 0, among: pages) == .done, "0 means no page")
        #expect(PageState(of: 7, among: pages) == .outstanding)
        #expect(PageState(of: 5, among: pages) == .done)
        #expect(PageState(of: 2, among: pages) == .done, "older than all, as after a restore from a backup")
        #expect(PageState(of: 6, among: pages) == .lost, "dropped after too many other pages")
        #expect(PageState(of: 9, among: pages) == .lost, "a page of another database")
        #expect(PageState(of: 1, among: []) == .lost)
    }
}

@Suite struct PullRequestTests {
    private static func refused(_ body: String) -> [String] {
        do throws(Problem) {
            _ = try PullRequest(body: Array(body.utf8), limit: 65_536)
            return []
        } catch {
            return ["\(error.code.rawValue)"] + error.errors.map { "\($0.pointer) \($0.rule)" }
        }
    }

    @Test func `all members are optional`() throws {
        for body in ["", "{}", #"{"since":null,"next_local_ids":{}}"#] {
            let request = try PullRequest(body: Array(body.utf8), limit: 65_536)
            #expect(request.since == nil)
            #expect(request.limit == 500)
            #expect(request.wait == 0)
            #expect(request.nextLocalIDs.isEmpty)
        }
        let body =
            #"{"since":"f1-1-1-1-0","limit":7,"wait":60,"next_local_ids":"#
            + #"{"task":9223372036854775807,"a":-9223372036854775808,"b":null}}"#
        let full = try PullRequest(body: Array(body.utf8), limit: 65_536)
        #expect(full.since == "f1-1-1-1-0")
        #expect(full.limit == 7)
        #expect(full.wait == 60)
        #expect(full.nextLocalIDs == ["task": .max, "a": .min, "b": nil])
    }

    @Test func `names each defect`() {
        let cases = [
            ("{", ["invalid_json"]), ("[]", ["invalid_request", " member_type"]),
            (#"{"since":1}"#, ["invalid_request", "/since member_type"]),
            (#"{"limit":0}"#, ["invalid_request", "/limit member_range"]),
            (#"{"limit":1001}"#, ["invalid_request", "/limit member_range"]),
            (#"{"limit":null}"#, ["invalid_request", "/limit member_range"]),
            (#"{"wait":61}"#, ["invalid_request", "/wait member_range"]),
            (#"{"wait":1.5}"#, ["invalid_request", "/wait member_range"]),
            (#"{"next_local_ids":[]}"#, ["invalid_request", "/next_local_ids member_type"]),
            (#"{"next_local_ids":{"Task":1}}"#, ["invalid_request", "/next_local_ids/Task entity_type_valid_enum"]),
            (#"{"next_local_ids":{"task":"1"}}"#, ["invalid_request", "/next_local_ids/task member_range"]),
            (
                #"{"next_local_ids":{"task":9223372036854775808}}"#,
                ["invalid_request", "/next_local_ids/task member_range"]
            ),
            (#"{"next_local_ids":{"a":1,"a":2}}"#, ["invalid_request", "/next_local_ids/a member_duplicate"]),
            (#"{"device_id":"x"}"#, ["invalid_request", "/device_id member_unknown"]),
        ]
        for (body, errors) in cases { #expect(Self.refused(body) == errors, "\(body)") }
        let many = (0...1_000).map { #""t\#($0)":1"# }
        #expect(
            Self.refused(#"{"next_local_ids":{\#(many.joined(separator: ","))}}"#)
                == ["invalid_request", "/next_local_ids member_range"]
        )
        #expect(Self.refused(#"{"next_local_ids":{\#(many.dropLast().joined(separator: ","))}}"#) == [])
    }
}
