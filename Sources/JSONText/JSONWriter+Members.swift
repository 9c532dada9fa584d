package import FoundationEssentials

/// What a ``JSONWriter`` writes as one value.
package protocol JSONWritable {
    func write(to writer: inout JSONWriter)
}

extension String: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension StaticString: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.string(self) }
}

extension UUID: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.uuid(self) }
}

extension Int64: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.int(self) }
}

extension Int: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.int(self) }
}

extension Bool: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.bool(self) }
}

extension JSONValue: JSONWritable {
    package func write(to writer: inout JSONWriter) { writer.value(self) }
}

// Inlined where they are used, where the value's type is known.
extension JSONWriter {
    /// A member's name and value.
    @inlinable
    package mutating func member(_ name: StaticString, _ value: some JSONWritable) {
        self.name(name)
        value.write(to: &self)
    }

    /// A member's name and value; nil is `null`.
    @inlinable
    package mutating func member(_ name: StaticString, _ value: (some JSONWritable)?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member with a value that is JSON text already.
    @inlinable
    package mutating func member(_ name: StaticString, raw text: some Sequence<UInt8>) {
        self.name(name)
        raw(text)
    }

    /// A member with a value that is JSON text already; nil is `null`.
    @inlinable
    package mutating func member(_ name: StaticString, raw text: (some Sequence<UInt8>)?) {
        if let text { member(name, raw: text) } else { member(null: name) }
    }

    package mutating func member(null name: StaticString) {
        self.name(name)
        null()
    }
}
