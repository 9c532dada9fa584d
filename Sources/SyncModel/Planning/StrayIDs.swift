public import Foundation

/// UUIDs that a device's mutations named lately and that stood for nothing then, so that they were taken for data
/// (product rule 3). A create that makes one of them a client id after all is told so by a warning.
///
/// A few bytes that are kept with the device: the last ``limit`` of them, six bytes of each. That two share these by
/// chance is less likely than a disk's error.
public struct StrayIDs: Sendable, Hashable {
    /// UUIDs that are remembered of a device.
    public static let limit = 20
    private static let width = 6

    /// The stored form, oldest first.
    public let stored: [UInt8]

    /// - Parameter stored: what is stored; nil for nothing.
    public init(stored: [UInt8]? = nil) {
        self.stored = stored ?? []
    }

    private init(_ marks: some Sequence<UInt64>) {
        stored = marks.flatMap { mark in (0..<Self.width).map { UInt8(truncatingIfNeeded: mark >> (8 * $0)) } }
    }

    /// Whether there is none.
    public var isEmpty: Bool { stored.isEmpty }

    /// Whether a UUID is among them.
    public func contains(_ id: UUID) -> Bool {
        !stored.isEmpty && marks.contains(Self.mark(id))
    }

    /// These and some more, in the place of the oldest where they are too many; nil where that changes nothing.
    ///
    /// - Parameter ids: newest first.
    func adding(_ ids: some Sequence<UUID>) -> StrayIDs? {
        let known = marks
        var new: [UInt64] = []
        for id in ids {
            let mark = Self.mark(id)
            if known.contains(mark) || new.contains(mark) { continue }
            new.append(mark)
            if new.count == Self.limit { break }
        }
        return new.isEmpty ? nil : StrayIDs((known + new.reversed()).suffix(Self.limit))
    }

    private var marks: [UInt64] {
        stride(from: 0, to: stored.count - Self.width + 1, by: Self.width).map { start in
            stored[start..<start + Self.width].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    /// Six bytes in which UUIDs of every version differ: some count in their first half, some in their second.
    private static func mark(_ id: UUID) -> UInt64 {
        withUnsafeBytes(of: id.uuid) { bytes in
            let half = { UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: $0, as: UInt64.self)) }
            return (half(0) ^ half(8)) & (1 << (8 * UInt64(width)) - 1)
        }
    }
}
