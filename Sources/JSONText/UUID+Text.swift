internal import CSimdJSON
public import FoundationEssentials

/// Conversions in some ten nanoseconds; Foundation's take several hundred.
extension UUID {
    private static let textLength = 36

    /// Reads 36 ASCII bytes of the shape 8-4-4-4-12, in either case.
    ///
    /// RFC 9562, section 4; nil for anything else.
    public init?(text: UnsafeBufferPointer<UInt8>) {
        guard text.count == Self.textLength, let start = text.baseAddress else { return nil }
        var bytes: uuid_t = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        let isUUID = withUnsafeMutableBytes(of: &bytes) { bytes in
            csj_parse_uuid(start, bytes.baseAddress?.assumingMemoryBound(to: UInt8.self))
        }
        guard isUUID else { return nil }
        self.init(uuid: bytes)
    }

    /// Reads 36 ASCII bytes of the shape 8-4-4-4-12, in either case.
    ///
    /// RFC 9562, section 4; nil for anything else.
    public init?(text: some Collection<UInt8>) {
        let parsed = text.withContiguousStorageIfAvailable { UUID(text: $0) }
        guard let uuid = parsed ?? Array(text).withUnsafeBufferPointer({ UUID(text: $0) }) else { return nil }
        self = uuid
    }

    /// Reads 36 characters of the shape 8-4-4-4-12, in either case.
    ///
    /// RFC 9562, section 4; nil for anything else.
    public init?(parsing string: String) {
        self.init(text: string.utf8)
    }

    public var lowercased: String {
        String(unsafeUninitializedCapacity: Self.textLength) { buffer in
            format(into: buffer.baseAddress)
            return Self.textLength
        }
    }

    public func appendLowercased(to bytes: inout [UInt8]) {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Self.textLength) { buffer in
            format(into: buffer.baseAddress)
            bytes.append(contentsOf: UnsafeBufferPointer(buffer))
        }
    }

    private func format(into text: UnsafeMutablePointer<UInt8>?) {
        withUnsafeBytes(of: uuid) { bytes in
            csj_format_uuid(bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), text)
        }
    }
}
