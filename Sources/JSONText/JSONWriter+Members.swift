public import FoundationEssentials

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

// Inlined where they are used, with the value's type known.
extension JSONWriter {
    @inlinable
    public mutating func member(_ name: StaticString, _ value: some JSONWritable) {
        self.name(name)
        value.write(to: &self)
    }

    /// Nil is `null`.
    @inlinable
    public mutating func member(_ name: StaticString, _ value: (some JSONWritable)?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member whose value is JSON text already.
    @inlinable
    public mutating func member(_ name: StaticString, raw text: some Sequence<UInt8>) {
        self.name(name)
        raw(text)
    }

    /// A member whose value is JSON text already; nil is `null`.
    @inlinable
    public mutating func member(_ name: StaticString, raw text: (some Sequence<UInt8>)?) {
        if let text { member(name, raw: text) } else { member(null: name) }
    }

    public mutating func member(null name: StaticString) {
        self.name(name)
        null()
    }
}
