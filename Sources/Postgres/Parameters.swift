/// The values of a statement's parameters in PostgreSQL's binary format.
///
/// Values are encoded when they are added, into one shared buffer. The server refuses text that contains U+0000
/// (22021).
public struct Parameters: Sendable {
    /// The place of a value in `buffer`; a negative length means NULL.
    @usableFromInline
    struct Slot: Sendable {
        @usableFromInline var offset: Int
        @usableFromInline var length: Int

        @inlinable
        init(offset: Int, length: Int) {
            self.offset = offset
            self.length = length
        }
    }

    @usableFromInline var buffer: [UInt8] = []
    @usableFromInline var slots: [Slot] = []
    @usableFromInline var types: [UInt32] = []

    public init() {}

    /// The values of $1, $2 and so on, from left to right.
    @inlinable
    public init<each Value: PostgresEncodable>(_ values: repeat each Value) {
        self.init()
        repeat add(each values)
    }

    public var count: Int { slots.count }

    @inlinable
    public mutating func add<Value: PostgresEncodable>(_ value: Value) {
        let (start, size) = (buffer.count, value.postgresSize)
        types.append(Value.postgresType.oid)
        slots.append(Slot(offset: start, length: size ?? -1))
        guard let size, size > 0 else { return }
        #if DEBUG
            // in a build without optimization, appending a repeated element takes a hundred times longer than this copy
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: size) { bytes in
                guard let base = bytes.baseAddress else { return }
                value.writePostgres(to: base)
                buffer.append(contentsOf: bytes)
            }
        #else
            buffer.append(contentsOf: repeatElement(0, count: size))
            buffer.withUnsafeMutableBytes { bytes in
                if let base = bytes.baseAddress { value.writePostgres(to: base + start) }
            }
        #endif
    }
}
