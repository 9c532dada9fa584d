import Foundation
import SyncModel

/// A short name for a lane or an organization's feed in hints between replicas.
///
/// 48 bits, eight characters. If two share a name, that costs an unnecessary poll.
struct WakeName: Hashable, Sendable {
    /// In characters.
    static let length = 8

    let bits: UInt64

    init(_ lane: LaneKey) {
        self.init(bits: Self.fold(lane.user) &+ Self.fold(lane.organization) &* 31)
    }

    init(feedOf organization: UUID) {
        self.init(bits: Self.fold(organization))
    }

    init?(_ text: some Sequence<UInt8>) {
        var bits: UInt64 = 0
        var count = 0
        for byte in text {
            guard let digit = Self.value(byte) else { return nil }
            bits = bits << 6 | digit
            count += 1
        }
        guard count == Self.length else { return nil }
        self.bits = bits
    }

    private init(bits: UInt64) {
        // the upper bits of a product are mixed best
        self.bits = (bits &* 0x9e37_79b9_7f4a_7c15) >> 16
    }

    func append(to text: inout [UInt8]) {
        for shift in stride(from: 42, through: 0, by: -6) { text.append(Self.digits[Int(bits >> UInt64(shift)) & 63]) }
    }

    private static let digits = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/".utf8)

    private static func value(_ byte: UInt8) -> UInt64? {
        digits.firstIndex(of: byte).map { UInt64($0) }
    }

    private static func fold(_ id: UUID) -> UInt64 {
        withUnsafeBytes(of: id.uuid) { bytes in
            bytes.loadUnaligned(as: UInt64.self) ^ bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        }
    }
}
