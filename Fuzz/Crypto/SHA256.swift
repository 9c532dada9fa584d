internal import COpenSSL

/// The parts of swift-crypto that the fuzzed sources use, implemented with the system's OpenSSL. This lets the compiler
/// alone build a fuzzer, in a minute and without the packages.
package struct SHA256 {
    /// 32 bytes.
    package typealias Digest = [UInt8]

    private var bytes: [UInt8] = []

    /// The state before any bytes.
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

    /// The digest of all added bytes.
    package func finalize() -> Digest { Self.hash(data: bytes) }
}
