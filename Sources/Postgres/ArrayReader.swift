/// Walks the binary form of an array without reading past its end.
///
/// The array has at most one dimension.
struct ArrayReader {
    let elementType: UInt32
    let count: Int
    private var rest: UnsafeRawBufferPointer

    /// `nil` where the bytes are no such array.
    init?(_ bytes: UnsafeRawBufferPointer) {
        rest = bytes
        guard let dimensions = Self.integer(&rest), Self.integer(&rest) != nil, let type = Self.integer(&rest) else {
            return nil
        }
        elementType = UInt32(bitPattern: type)
        if dimensions == 0 {
            count = 0
            return
        }
        guard dimensions == 1, let length = Self.integer(&rest), Self.integer(&rest) != nil else { return nil }
        // Each element takes at least the four bytes of its length.
        guard length >= 0, Int(length) <= rest.count / 4 else { return nil }
        count = Int(length)
    }

    /// The next element's bytes; `nil` for NULL, and where the array is cut short.
    mutating func next() -> UnsafeRawBufferPointer? {
        guard let length = Self.integer(&rest), length >= 0, Int(length) <= rest.count else { return nil }
        let element = UnsafeRawBufferPointer(rebasing: rest.prefix(Int(length)))
        rest = UnsafeRawBufferPointer(rebasing: rest.dropFirst(Int(length)))
        return element
    }

    private static func integer(_ bytes: inout UnsafeRawBufferPointer) -> Int32? {
        guard bytes.count >= 4 else { return nil }
        let value = Int32(bigEndian: bytes.loadUnaligned(as: Int32.self))
        bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(4))
        return value
    }
}
