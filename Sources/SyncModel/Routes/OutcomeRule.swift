public import JSONText

/// An operator's rule for the meaning of an upstream's answers.
///
/// The first rule that matches an answer decides (product rule 21). If no rule matches, the table of product rule 11
/// applies.
public struct OutcomeRule: Sendable, Hashable {
    /// The result of an answer according to a rule.
    public enum Verdict: String, Sendable, Hashable, CaseIterable {
        case succeeded
        case failed
        /// The mutation is in conflict, and its strategy applies.
        case conflict
        /// The mutation is sent again after a pause. A 5xx is treated as a 503, and other statuses as a 429.
        case retry
        /// The mutation fails, and the lane halts even if `on_failure` is `continue`.
        case halt
    }

    /// A condition on one value of an answer's JSON.
    public struct Condition: Sendable, Hashable {
        enum Test: Sendable, Hashable {
            case exists(Bool)
            /// The value exists, and is equal to the associated value.
            case equals(Scalar)
            /// The value is missing, or differs from the associated value.
            case differs(Scalar)
        }

        /// The JSON Pointer to the value.
        @Exact var pointer: String
        var test: Test
    }

    /// A text, an integer, a boolean or null. Scalars are compared by their bytes.
    struct Scalar: Sendable, Hashable {
        private let kind: JSONValue.Kind
        private let bytes: [UInt8]

        /// Creates a scalar; nil for objects, arrays, and numbers that are not 64-bit integers.
        init?(_ value: JSONValue) {
            kind = value.kind
            switch value.kind {
            case .string: bytes = Array((value.string ?? "").utf8)
            case .bool: bytes = value.bool == true ? [1] : [0]
            case .null: bytes = []
            case .number:
                guard let number = value.int64 else { return nil }
                bytes = withUnsafeBytes(of: number.bigEndian) { Array($0) }
            case .object, .array: return nil
            }
        }
    }

    /// The maximum number of rules of an upstream or a route.
    public static let limit = 32
    static let conditionLimit = 8

    /// The HTTP statuses to which the rule applies, from 200 to 599.
    public let statuses: Set<Int>
    public let conditions: [Condition]
    public let verdict: Verdict
    /// The JSON Pointer to a human-readable message in the answer.
    @Exact public private(set) var message: String?
    /// The JSON Pointer to the entity's current document in an answer that is a conflict or a success.
    @Exact public private(set) var document: String?
    /// The place of the rule in the settings, for error texts.
    @Exact public private(set) var place: String

    /// Whether the rule matches an answer.
    ///
    /// - Parameter body: the JSON of the answer; nil for an answer without JSON. In such an answer, no value exists.
    public func matches(status: Int, body: JSONValue?) -> Bool {
        statuses.contains(status) && conditions.allSatisfy { $0.holds(in: body) }
    }

    /// The human-readable message in an answer, cut to at most 200 characters.
    func message(in body: JSONValue?) -> String? {
        message.flatMap { body?.value(at: $0)?.string }.map { String($0.prefix(200)) }
    }
}

extension OutcomeRule.Condition {
    /// - Returns: false for every test of a value whose member is repeated, because servers and clients interpret
    ///   repeated members differently (RFC 8259, section 4).
    func holds(in body: JSONValue?) -> Bool {
        if let body, body.isAmbiguous(at: pointer) { return false }
        let value = body?.value(at: pointer)
        switch test {
        case .exists(let isExpected): return (value != nil) == isExpected
        case .equals(let expected): return value.flatMap(OutcomeRule.Scalar.init) == expected
        case .differs(let other): return value.flatMap(OutcomeRule.Scalar.init) != other
        }
    }

    /// Whether the other condition refers to a value inside of this condition's value.
    private func isAbove(_ other: OutcomeRule.Condition) -> Bool {
        other.pointer.utf8.starts(with: (pointer + "/").utf8)
    }

    /// Whether this condition can be true only if the value exists.
    private var isPresence: Bool {
        switch test {
        case .exists(true), .equals: true
        case .exists(false), .differs: false
        }
    }

    /// Whether this condition can be true only if the value has no members or elements.
    private var isLeaf: Bool {
        switch test {
        case .exists(false), .equals: true
        case .exists(true), .differs: false
        }
    }

    private var isDifference: Bool { if case .differs = test { true } else { false } }

    /// Whether this condition is true in each answer in which the other condition is true.
    func follows(from other: OutcomeRule.Condition) -> Bool {
        // if the inner value exists, the outer value exists and is not a text, integer, boolean or null
        if isAbove(other), other.isPresence { return test == .exists(true) || isDifference }
        if other.isAbove(self), other.isLeaf { return test == .exists(false) || isDifference }
        guard pointer == other.pointer else { return false }
        switch (test, other.test) {
        case (.exists(true), .equals): return true
        case (.differs(let excluded), .equals(let value)): return excluded != value
        case (.differs, .exists(false)): return true
        default: return test == other.test
        }
    }

    /// Whether no answer satisfies both conditions.
    func excludes(_ other: OutcomeRule.Condition) -> Bool {
        if isAbove(other) { return isLeaf && other.isPresence }
        if other.isAbove(self) { return other.isLeaf && isPresence }
        guard pointer == other.pointer else { return false }
        switch (test, other.test) {
        case (.exists(let one), .exists(let two)): return one != two
        case (.exists(false), .equals), (.equals, .exists(false)): return true
        case (.equals(let one), .equals(let two)): return one != two
        case (.equals(let one), .differs(let two)), (.differs(let one), .equals(let two)): return one == two
        default: return false
        }
    }
}

// MARK: - Reading

extension OutcomeRule {
    private static let what = "an outcome rule: status, where, then, message, document"
    private static let whatCondition = "a condition: pointer, is, not, exists"

    /// Reads a list of rules. If the list has errors, appends them to `errors`.
    ///
    /// - Parameter pointer: the JSON Pointer to the list.
    static func rules(_ value: JSONValue, at pointer: String, _ errors: inout [ProblemDetail]) -> [OutcomeRule] {
        guard let elements = value.elements else {
            errors.append(ProblemDetail(pointer: pointer, rule: Rule.memberType, detail: "outcomes must be an array"))
            return []
        }
        var rules: [OutcomeRule] = []
        for (index, element) in elements.enumerated() {
            guard index < limit else {
                let detail = "at most \(limit) outcome rules, got \(elements.count)"
                errors.append(ProblemDetail(pointer: pointer, rule: Rule.range, detail: detail))
                break
            }
            let place = "\(pointer)/\(index)"
            guard let rule = OutcomeRule(element, at: place, &errors) else { continue }
            if let first = rules.first(where: { $0.covers(rule) }) {
                let detail = "the rule never decides: each answer that it matches is already matched by \(first.place)"
                errors.append(ProblemDetail(pointer: place, rule: Rule.range, detail: detail))
            }
            rules.append(rule)
        }
        return rules
    }

    /// Whether this rule matches each answer that the other rule matches.
    private func covers(_ other: OutcomeRule) -> Bool {
        other.statuses.isSubset(of: statuses)
            && conditions.allSatisfy { condition in other.conditions.contains { condition.follows(from: $0) } }
    }

    private init?(_ value: JSONValue, at place: String, _ errors: inout [ProblemDetail]) {
        let before = errors.count
        func refuse(_ member: String, _ rule: String, _ detail: String) {
            errors.append(ProblemDetail(pointer: place + member, rule: rule, detail: detail))
        }
        guard let members = value.members else {
            refuse("", Rule.memberType, "an outcome rule must be an object")
            return nil
        }
        var (statuses, conditions, verdict) = (Set<Int>(), [Condition](), Verdict?.none)
        var (message, document) = (String?.none, String?.none)
        for (name, value) in members {
            switch name.string {
            case "status":
                statuses = Self.statuses(value)
                if statuses.isEmpty {
                    let detail = #"status must be "2xx" to "5xx", a status from 200 to 599, or an array of these"#
                    refuse("/status", Rule.range, detail)
                }
            case "where": conditions = Self.conditions(value, at: place + "/where", &errors)
            case "then":
                verdict = value.string.flatMap(Verdict.init(rawValue:))
                if verdict == nil {
                    let names = Verdict.allCases.map(\.rawValue).joined(separator: ", ")
                    refuse("/then", Rule.range, "then must be one of " + names)
                }
            case "message":
                message = Self.pointer(value)
                if message == nil { refuse("/message", Rule.range, Self.pointerDetail("message")) }
            case "document":
                document = Self.pointer(value)
                if document == nil { refuse("/document", Rule.range, Self.pointerDetail("document")) }
            default:
                refuse(
                    JSONPointer().appending(member: name.string).text,
                    Rule.unknownMember,
                    UnknownMember.detail(
                        name.string,
                        of: Self.what,
                        isSuggesting: errors.count < UnknownMember.suggestions
                    )
                )
            }
        }
        if value.value(at: "/status") == nil { refuse("/status", Rule.required, "an outcome rule has a status") }
        if value.value(at: "/then") == nil { refuse("/then", Rule.required, "an outcome rule has a then") }
        guard errors.count == before, let verdict else { return nil }
        self.init(
            statuses: statuses,
            conditions: conditions,
            verdict: verdict,
            message: message,
            document: document,
            place: place
        )
        if let (member, detail) = contradiction {
            refuse(member, Rule.range, detail)
            return nil
        }
    }

    /// A combination of members that is not allowed, with its place and the error.
    private var contradiction: (member: String, detail: String)? {
        for (index, condition) in conditions.enumerated() {
            if let other = conditions[..<index].firstIndex(where: { $0.excludes(condition) }) {
                return ("/where/\(index)", "no answer satisfies this condition and condition \(other) of the rule")
            }
        }
        if document != nil, verdict != .conflict, verdict != .succeeded {
            return ("/document", "only a rule with then: conflict or succeeded has a document")
        }
        if message != nil, verdict == .succeeded { return ("/message", "a rule with then: succeeded has no message") }
        guard statuses.contains(where: { $0 >= 500 }) else { return nil }
        switch verdict {
        case .retry: return nil
        case .succeeded, .conflict:
            return ("/status", "a 5xx may have any effect, so it cannot become \(verdict.rawValue)")
        case .failed, .halt:
            let detail = "a 5xx becomes \(verdict.rawValue) only by a condition on its body (where)"
            return conditions.isEmpty ? ("/status", detail) : nil
        }
    }

    private static func pointer(_ value: JSONValue) -> String? {
        guard let text = value.string, text.utf8.count <= 200, JSONPointer.isValid(text) else { return nil }
        return text
    }

    private static func pointerDetail(_ name: String) -> String {
        "\(name) must be a JSON Pointer (RFC 6901) of at most 200 bytes, like /error/message"
    }

    /// The statuses in a JSON value; empty if the value is invalid.
    private static func statuses(_ value: JSONValue) -> Set<Int> {
        if let elements = value.elements {
            let sets = elements.map { $0.elements == nil ? statuses($0) : [] }
            return sets.contains { $0.isEmpty } ? [] : sets.reduce(into: []) { $0.formUnion($1) }
        }
        if let status = value.int64 { return (200...599).contains(status) ? [Int(status)] : [] }
        switch value.string {
        case "2xx": return Set(200...299)
        case "3xx": return Set(300...399)
        case "4xx": return Set(400...499)
        case "5xx": return Set(500...599)
        default: return []
        }
    }

    private static func conditions(
        _ value: JSONValue,
        at place: String,
        _ errors: inout [ProblemDetail]
    ) -> [Condition] {
        guard let elements = value.elements, elements.count <= conditionLimit else {
            let detail = "where must be an array of at most \(conditionLimit) conditions"
            errors.append(ProblemDetail(pointer: place, rule: Rule.range, detail: detail))
            return []
        }
        return elements.enumerated().compactMap { condition($1, at: "\(place)/\($0)", &errors) }
    }

    private static func condition(
        _ value: JSONValue,
        at place: String,
        _ errors: inout [ProblemDetail]
    ) -> Condition? {
        func refuse(_ member: String, _ rule: String, _ detail: String) -> Condition? {
            errors.append(ProblemDetail(pointer: place + member, rule: rule, detail: detail))
            return nil
        }
        guard let members = value.members else { return refuse("", Rule.memberType, "a condition must be an object") }
        var tests: [Condition.Test] = []
        for (name, value) in members {
            switch name.string {
            case "pointer": break
            case "exists":
                guard let flag = value.bool else {
                    return refuse("/exists", Rule.memberType, "exists must be true or false")
                }
                tests.append(.exists(flag))
            case "is", "not":
                guard let scalar = Scalar(value) else {
                    let detail = "\(name.string) must be a text, an integer, true, false or null"
                    return refuse("/" + name.string, Rule.memberType, detail)
                }
                tests.append(name.equals("is") ? .equals(scalar) : .differs(scalar))
            default:
                let pointer = JSONPointer().appending(member: name.string).text
                return refuse(pointer, Rule.unknownMember, UnknownMember.detail(name.string, of: whatCondition))
            }
        }
        guard let pointer = value.value(at: "/pointer").flatMap(pointer) else {
            return refuse("/pointer", Rule.range, pointerDetail("pointer"))
        }
        guard tests.count == 1 else { return refuse("", Rule.range, "a condition has one of is, not and exists") }
        return Condition(pointer: pointer, test: tests[0])
    }
}

/// The rules of an upstream or of a route.
public struct OutcomeRules: Sendable, Hashable {
    /// The rules as the operator wrote them.
    public let json: [UInt8]
    public let rules: [OutcomeRule]

    /// Creates an empty list.
    public init() { (json, rules) = (Array("[]".utf8), []) }

    /// Reads a list of rules. If the list has errors, appends them to `errors`.
    public init(_ value: JSONValue, at pointer: String, _ errors: inout [ProblemDetail]) {
        json = Array(value.raw)
        rules = OutcomeRule.rules(value, at: pointer, &errors)
    }

    /// Reads the stored form. Rules that this version cannot read are omitted.
    public init(stored value: JSONValue) {
        var errors: [ProblemDetail] = []
        self.init(value, at: "/outcomes", &errors)
    }

    /// The first rule that matches an answer.
    public func first(status: Int, body: JSONValue?) -> OutcomeRule? {
        rules.first { $0.matches(status: status, body: body) }
    }
}
