import JSONText

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// JSON as a plain value, for comparison.
indirect enum Model: Equatable {
    case null
    case bool(Bool)
    case number(String)
    case string(String)
    case array([Model])
    case object([(name: String, value: Model)])

    /// Members are unordered.
    static func == (left: Model, right: Model) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): left == right
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)):
            left.count == right.count
                && left.allSatisfy { member in
                    right.contains { $0.name == member.name && $0.value == member.value }
                }
        default: false
        }
    }
}

extension Model {
    init(_ value: JSONValue) {
        if let members = value.members {
            self = .object(members.map { ($0.name.string, Model($0.value)) })
        } else if let elements = value.elements {
            self = .array(elements.map { Model($0) })
        } else if let string = value.string {
            self = .string(string)
        } else if let bool = value.bool {
            self = .bool(bool)
        } else {
            self = value.isNull ? .null : .number(text(value.raw))
        }
    }

    /// RFC 7396, section 2, literally.
    static func mergePatch(_ target: Model?, _ patch: Model) -> Model {
        guard case .object(let changes) = patch else { return patch }
        var members: [(name: String, value: Model)] = []
        if case .object(let old)? = target { members = old }
        for change in changes {
            let place = members.firstIndex { $0.name == change.name }
            if change.value == .null {
                if let place { members.remove(at: place) }
            } else if let place {
                members[place].value = mergePatch(members[place].value, change.value)
            } else {
                members.append((change.name, mergePatch(nil, change.value)))
            }
        }
        return .object(members)
    }
}

/// Generates values, and different texts for them.
struct ModelSource {
    static let uuids = (0..<6).map { _ in UUID() }
    var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed) }

    mutating func pick<Element>(_ choices: [Element]) -> Element {
        choices[Int.random(in: 0..<choices.count, using: &random)]
    }

    mutating func value(depth: Int = 3) -> Model {
        switch Int.random(in: 0..<(depth > 0 ? 9 : 6), using: &random) {
        case 0: .null
        case 1: .bool(.random(using: &random))
        case 2: .number(pick(["0", "-0", "12", "1.50", "1e5", "123456789012345678901234567890.10"]))
        case 3: .string(pick(Self.uuids).lowercased)
        case 4, 5: .string(name())
        case 6: .array((0..<Int.random(in: 0..<4, using: &random)).map { _ in value(depth: depth - 1) })
        default: object(depth: depth)
        }
    }

    mutating func object(depth: Int = 3) -> Model {
        var members: [(name: String, value: Model)] = []
        for _ in 0..<Int.random(in: 0..<pick([4, 4, 40]), using: &random) {
            let name = name()
            if members.contains(where: { $0.name == name }) { continue }
            members.append((name, value(depth: depth - 1)))
        }
        return .object(members)
    }

    private mutating func name() -> String {
        let count = Int.random(in: 0..<12, using: &random)
        return (0..<count).map { _ in pick(["a", "b", "c", "\"", "\\", "/", "\n", "\u{1}", "é", "😀", "~"]) }.joined()
    }

    /// White space, the order of members, escapes and the case of UUIDs are random.
    mutating func write(_ value: Model) -> String {
        switch value {
        case .null: "null"
        case .bool(let bool): "\(bool)"
        case .number(let digits): digits
        case .string(let string): write(string)
        case .array(let elements):
            "[" + space() + elements.map { write($0) + space() }.joined(separator: "," + space()) + "]"
        case .object(let members):
            "{" + space()
                + members.shuffled(using: &random).map { write($0.name) + space() + ":" + space() + write($0.value) }
                .joined(separator: space() + "," + space()) + space() + "}"
        }
    }

    private mutating func space() -> String { pick(["", "", "", " ", "\n  ", "\t\r\n"]) }

    private mutating func write(_ string: String) -> String {
        let isUUID = UUID(parsing: string) != nil
        let cased = isUUID && Bool.random(using: &random) ? string.uppercased() : string
        var written = "\""
        for unit in cased.unicodeScalars {
            let mustEscape = unit.value < 0x20 || unit == "\"" || unit == "\\"
            if mustEscape || Int.random(in: 0..<20, using: &random) == 0 {
                for unit in String(unit).utf16 {
                    let digits = String(unit, radix: 16, uppercase: .random(using: &random))
                    written += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
                }
            } else {
                written.unicodeScalars.append(unit)
            }
        }
        return written + "\""
    }
}
