import Glibc

/// The pointer arrays that libpq needs.
///
/// A connection reuses them for all its statements.
struct ValuePointers: ~Copyable {
    private(set) var count = 0
    private(set) var values: UnsafeMutablePointer<UnsafePointer<CChar>?>
    private(set) var lengths: UnsafeMutablePointer<Int32>
    private(set) var formats: UnsafeMutablePointer<Int32>
    private var capacity: Int
    /// An empty value still needs an address, as a null pointer means NULL.
    private let empty = UnsafeMutablePointer<CChar>.allocate(capacity: 1)

    init(capacity: Int = 64) {
        self.capacity = capacity
        values = .allocate(capacity: capacity)
        lengths = .allocate(capacity: capacity)
        formats = .allocate(capacity: capacity)
        formats.initialize(repeating: 1, count: capacity)
        empty.initialize(to: 0)
    }

    deinit {
        values.deallocate()
        lengths.deallocate()
        formats.deallocate()
        empty.deallocate()
    }

    /// Points at the values of `parameters` for the time of `body`.
    mutating func withValues<Value>(of parameters: Parameters, _ body: (borrowing Self) -> Value) -> Value {
        reserve(parameters.count)
        count = parameters.count
        return parameters.buffer.withUnsafeBytes { bytes in
            for (index, slot) in parameters.slots.enumerated() {
                lengths[index] = Int32(clamping: max(slot.length, 0))
                values[index] = slot.length < 0 ? nil : pointer(to: slot, in: bytes)
            }
            return body(self)
        }
    }

    private func pointer(to slot: Parameters.Slot, in bytes: UnsafeRawBufferPointer) -> UnsafePointer<CChar> {
        guard slot.length > 0, let base = bytes.baseAddress else { return UnsafePointer(empty) }
        return (base + slot.offset).assumingMemoryBound(to: CChar.self)
    }

    private mutating func reserve(_ wanted: Int) {
        guard wanted > capacity else { return }
        values.deallocate()
        lengths.deallocate()
        formats.deallocate()
        capacity = wanted
        values = .allocate(capacity: wanted)
        lengths = .allocate(capacity: wanted)
        formats = .allocate(capacity: wanted)
        formats.initialize(repeating: 1, count: wanted)
    }
}
