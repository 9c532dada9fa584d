extension JSONWriter {
    /// An object that is a text of its own.
    public static func object(capacity: Int = 256, _ members: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(capacity: capacity)
        writer.object(members)
        return writer.bytes
    }

    /// An object.
    public mutating func object(_ members: (inout JSONWriter) -> Void) {
        beginObject()
        members(&self)
        endObject()
    }

    /// A member with an object.
    public mutating func member(_ name: StaticString, object members: (inout JSONWriter) -> Void) {
        self.name(name)
        object(members)
    }
}
