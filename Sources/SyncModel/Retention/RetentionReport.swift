package import JSONText

/// How much of each kind there was.
package struct RetentionReport: Sendable, Hashable {
    private var counts: [RetentionKind: Int] = [:]

    /// Nothing.
    package init() {}

    /// How much of a kind; 0 where nothing was counted.
    package subscript(kind: RetentionKind) -> Int {
        get { counts[kind] ?? 0 }
        set { counts[kind] = newValue }
    }

    /// All kinds together.
    package var total: Int { counts.values.reduce(0, +) }

    /// Writes an object with a member for every kind.
    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        for kind in RetentionKind.allCases {
            writer.name(kind.rawValue)
            writer.int(self[kind])
        }
        writer.endObject()
    }

    /// The object as JSON.
    package var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}
