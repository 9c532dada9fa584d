internal import COpenSSL

/// What the fuzzed sources use of swift-crypto, made by the system's OpenSSL: so a fuzzer is built by the compiler
/// alone, in a minute and without the packages.
package struct SHA256 {
    /// 32 bytes.
    package typealias Digest = [UInt8]

    private var bytes: [UInt8] = []

    /// Of nothing so far.
    package init() {}

    /// The digest of some bytes.
    package static func hash(data: some Sequence<UInt8>) -> Digest {
        let data = Array(data)
        var digest = [UInt8](repeating: 0, count: 32)
        _ = COpenSSL.SHA256(data, data.count, &digest)
        return digest
    }

    /// Adds bytes.
    package mutating func update(bufferPointer: UnsafeRawBufferPointer) {
        bytes += bufferPointer
    }

    package mutating func update(data: some Sequence<UInt8>) { bytes += data }

    /// The digest of all that was added.
    package func finalize() -> Digest { Self.hash(data: bytes) }
}
