public import FoundationEssentials

/// Writes JSON without white space, and adds the commas.
///
/// The caller must ensure that the sequence of calls forms one valid text.
///
/// Memory is allocated only when ``bytes`` grows, and by calls with a `String` that was created at run time.
public struct JSONWriter: Sendable {
    public var bytes: [UInt8]
    /// Whether a comma is required before the next name or value.
    var needsComma = false

    /// - Parameter capacity: the number of bytes to reserve.
    public init(capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    public mutating func endObject() { close(UInt8(ascii: "}")) }
    public mutating func beginArray() { open(UInt8(ascii: "[")) }
    public mutating func endArray() { close(UInt8(ascii: "]")) }

    /// Writes a member's name, which must not require escapes. The next call must write the member's value.
    public mutating func name(_ name: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        name.withUTF8Buffer { bytes.append(contentsOf: $0) }
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    public mutating func name(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    public mutating func string(_ string: String) {
        separate()
        var string = string
        string.withUTF8 { bytes.appendJSONString($0) }
    }

    public mutating func string(_ string: StaticString) {
        separate()
        string.withUTF8Buffer { bytes.appendJSONString($0) }
    }

    /// Writes a UUID as a string in lower case.
    public mutating func uuid(_ uuid: UUID) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        uuid.appendLowercased(to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    public mutating func int(_ number: Int64) {
        separate()
        bytes.appendDecimal(number)
    }

    public mutating func int(_ number: Int) { int(Int64(number)) }
    public mutating func bool(_ value: Bool) { raw(value ? "true" : "false") }
    public mutating func null() { raw("null") }

    /// Writes a value that is given as JSON text. The method is inlined, so that it is specialized for the type of the
    /// text.
    @inlinable
    public mutating func raw(_ text: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: text)
    }

    public mutating func raw(_ text: StaticString) {
        separate()
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    /// Writes a parsed value with its original text.
    public mutating func value(_ value: JSONValue) {
        separate()
        value.storage.withSource { bytes.append(contentsOf: $0.text(value.node.range)) }
    }

    private mutating func open(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    @usableFromInline
    mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }
}

extension String: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension StaticString: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension UUID: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.uuid(self) }
}

extension Int64: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.int(self) }
}

extension Int: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.int(self) }
}

extension Bool: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.bool(self) }
}

extension JSONValue: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.value(self) }
}

extension RawRepresentable where Self: JSONWritable, RawValue == String {
    public func write(to writer: inout JSONWriter) { writer.string(rawValue) }
}

/// Writes nil as `null`.
extension Optional: JSONWritable where Wrapped: JSONWritable {
    public func write(to writer: inout JSONWriter) {
        if let self { self.write(to: &writer) } else { writer.null() }
    }
}

extension Array: JSONWritable where Element: JSONWritable {
    public func write(to writer: inout JSONWriter) {
        writer.beginArray()
        for element in self { element.write(to: &writer) }
        writer.endArray()
    }
}

/// A value that is given as JSON text.
public struct RawJSON: JSONWritable, Sendable {
    private let text: [UInt8]

    public init(_ text: [UInt8]) { self.text = text }

    public func write(to writer: inout JSONWriter) { writer.raw(text) }
}

// These methods are inlined, so that they are specialized for the type of the value.
extension JSONWriter {
    @inlinable
    public mutating func member(_ name: StaticString, _ value: some JSONWritable) {
        self.name(name)
        value.write(to: &self)
    }

    /// Writes a member; nil is written as `null`.
    @inlinable
    public mutating func member(_ name: StaticString, _ value: (some JSONWritable)?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// Writes a member whose value is given as JSON text.
    @inlinable
    public mutating func member(_ name: StaticString, raw text: some Sequence<UInt8>) {
        self.name(name)
        raw(text)
    }

    /// Writes a member whose value is given as JSON text; nil is written as `null`.
    @inlinable
    public mutating func member(_ name: StaticString, raw text: (some Sequence<UInt8>)?) {
        if let text { member(name, raw: text) } else { member(null: name) }
    }

    public mutating func member(null name: StaticString) {
        self.name(name)
        null()
    }
}

extension JSONWriter {
    /// Returns the text of one object.
    public static func object(capacity: Int = 256, _ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(capacity: capacity)
        writer.object(members)
        return writer.bytes
    }

    public mutating func object(_ members: (inout JSONWriter) -> Void) {
        beginObject()
        members(&self)
        endObject()
    }

    public mutating func member(_ name: StaticString, object members: (inout JSONWriter) -> Void) {
        self.name(name)
        object(members)
    }
}

/// A value that a ``JSONWriter`` can write.
public protocol JSONWritable {
    func write(to writer: inout JSONWriter)
}

extension [UInt8] {
    /// Appends a string in quotes, with the shortest possible escapes (RFC 8259, section 7).
    mutating func appendJSONString(_ text: UnsafeBufferPointer<UInt8>) {
        append(UInt8(ascii: "\""))
        var start = 0
        for (index, byte) in text.enumerated() where byte.needsEscape {
            append(contentsOf: UnsafeBufferPointer(rebasing: text[start..<index]))
            appendEscape(byte)
            start = index + 1
        }
        append(contentsOf: UnsafeBufferPointer(rebasing: text[start...]))
        append(UInt8(ascii: "\""))
    }

    private mutating func appendEscape(_ byte: UInt8) {
        append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): append(byte)
        case 0x08: append(UInt8(ascii: "b"))
        case 0x09: append(UInt8(ascii: "t"))
        case 0x0a: append(UInt8(ascii: "n"))
        case 0x0c: append(UInt8(ascii: "f"))
        case 0x0d: append(UInt8(ascii: "r"))
        default:
            let digit = byte & 15
            append(UInt8(ascii: "u"))
            append(UInt8(ascii: "0"))
            append(UInt8(ascii: "0"))
            append(UInt8(ascii: "0") + byte >> 4)
            append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        }
    }

    mutating func appendDecimal(_ number: Int64) {
        let capacity = 20
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: capacity) { digits in
            var rest = number.magnitude
            var start = capacity
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            if number < 0 {
                start -= 1
                digits[start] = UInt8(ascii: "-")
            }
            append(contentsOf: UnsafeBufferPointer(rebasing: digits[start...]))
        }
    }
}

extension UInt8 {
    fileprivate var needsEscape: Bool {
        self < 0x20 || self == UInt8(ascii: "\"") || self == UInt8(ascii: "\\")
    }
}
