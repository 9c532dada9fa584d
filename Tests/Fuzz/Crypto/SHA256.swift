internal import COpenSSL

/// What the fuzzed sources use of swift-crypto, made by the system's OpenSSL: so a fuzzer is built by the compiler
/// alone, in a minute and without the packages.
public struct SHA256 {
    /// 32 bytes.
    public typealias Digest = [UInt8]

    private var bytes: [UInt8] = []

    /// Of nothing so far.
    public init() {}

    /// The digest of some bytes.
    public static func hash(data: [UInt8]) -> Digest {
        var digest = [UInt8](repeating: 0, count: 32)
        _ = COpenSSL.SHA256(data, data.count, &digest)
        return digest
    }

    /// Adds bytes.
    public mutating func update(bufferPointer: UnsafeRawBufferPointer) {
        bytes += bufferPointer
    }

    /// The digest of all that was added.
    public func finalize() -> Digest { Self.hash(data: bytes) }
}
