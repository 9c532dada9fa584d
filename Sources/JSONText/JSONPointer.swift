/// Builds JSON Pointers (RFC 6901).
public struct JSONPointer: Sendable, Equatable, CustomStringConvertible {
    /// The text of the pointer. It is empty for the root, and otherwise has a slash before every step.
    public private(set) var text: String

    public init() { text = "" }

    public init(_ text: String) { self.text = text }

    public var description: String { text }

    /// Compares bytes.
    public static func == (left: JSONPointer, right: JSONPointer) -> Bool { left.text == right.text }

    /// Appends a step to the member with this unescaped name.
    public mutating func append(member name: String) {
        text.append("/")
        for character in name.unicodeScalars {
            switch character {
            case "~": text.append("~0")
            case "/": text.append("~1")
            default: text.unicodeScalars.append(character)
            }
        }
    }

    /// Appends a step to the element with this index, counted from 0.
    public mutating func append(index: Int) {
        text.append("/\(index)")
    }

    public func appending(member name: String) -> JSONPointer {
        var pointer = self
        pointer.append(member: name)
        return pointer
    }

    public func appending(index: Int) -> JSONPointer {
        var pointer = self
        pointer.append(index: index)
        return pointer
    }

    public static func isValid(_ text: String) -> Bool { steps(of: text) != nil }

    /// The steps of a pointer, unescaped; nil for a malformed pointer.
    static func steps(of pointer: String) -> [[UInt8]]? {
        if pointer.isEmpty { return [] }
        guard pointer.utf8.first == UInt8(ascii: "/") else { return nil }
        var steps: [[UInt8]] = []
        for escaped in pointer.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            guard let step = unescape(escaped) else { return nil }
            steps.append(step)
        }
        return steps
    }

    private static func unescape(_ escaped: some Sequence<UInt8>) -> [UInt8]? {
        var step: [UInt8] = []
        var iterator = escaped.makeIterator()
        while let byte = iterator.next() {
            guard byte == UInt8(ascii: "~") else {
                step.append(byte)
                continue
            }
            switch iterator.next() {
            case UInt8(ascii: "0"): step.append(UInt8(ascii: "~"))
            case UInt8(ascii: "1"): step.append(UInt8(ascii: "/"))
            default: return nil
            }
        }
        return step
    }
}
