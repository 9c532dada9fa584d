public import JSONText

/// How many items of each kind retention has processed.
public struct RetentionReport: Sendable, Hashable {
    private var counts: [RetentionKind: Int] = [:]

    public init() {}

    /// 0 where nothing was counted.
    public subscript(kind: RetentionKind) -> Int {
        get { counts[kind] ?? 0 }
        set { counts[kind] = newValue }
    }

    public var total: Int { counts.values.reduce(0, +) }

    /// Writes an object with a member for every kind.
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        for kind in RetentionKind.allCases {
            writer.name(kind.rawValue)
            writer.int(self[kind])
        }
        writer.endObject()
    }

    public var json: [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }
}
