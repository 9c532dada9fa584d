public import FoundationEssentials

/// Writes JSON without white space, adding the commas.
///
/// The caller has to make calls that form one text.
///
/// Only calls with a `String` made at run time allocate anything except the bytes.
public struct JSONWriter: Sendable {
    public var bytes: [UInt8]
    /// Whether a comma belongs before the next name or value.
    var needsComma = false

    /// - Parameter capacity: the bytes to reserve.
    public init(capacity: Int = 256) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    public mutating func beginObject() { open(UInt8(ascii: "{")) }
    public mutating func endObject() { close(UInt8(ascii: "}")) }
    public mutating func beginArray() { open(UInt8(ascii: "[")) }
    public mutating func endArray() { close(UInt8(ascii: "]")) }

    /// A member's name, in which nothing needs an escape; its value has to follow.
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

    /// A UUID as a string in lower case.
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

    /// One value that is JSON text already. Inlined where the text's type is known.
    @inlinable
    public mutating func raw(_ text: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: text)
    }

    public mutating func raw(_ text: StaticString) {
        separate()
        text.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    /// A parsed value, as it was written.
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
