import Crypto
public import Foundation

/// UUIDs in a device's recent mutations that matched no client id.
///
/// They were treated as data (product rule 3). A later create with one of them as client id gets a warning.
///
/// Stored with the device in a few bytes: the last ``limit`` of them, six bytes of each. A collision of two is less
/// likely than a disk's error.
public struct UnresolvedIDHistory: Sendable, Hashable {
    public static let limit = 20
    private static let width = 6

    /// Oldest first.
    public let stored: [UInt8]

    /// - Parameter stored: the stored form; nil for none.
    public init(stored: [UInt8]? = nil) {
        self.stored = stored ?? []
    }

    private init(_ marks: some Sequence<UInt64>) {
        stored = marks.flatMap { mark in (0..<Self.width).map { UInt8(truncatingIfNeeded: mark >> (8 * $0)) } }
    }

    public var isEmpty: Bool { stored.isEmpty }

    public func contains(_ id: UUID) -> Bool {
        !stored.isEmpty && marks.contains(Self.mark(id))
    }

    /// These and some more ids, or nil where that changes nothing.
    ///
    /// New ones replace the oldest beyond the limit.
    ///
    /// - Parameter ids: newest first.
    func adding(_ ids: some Sequence<UUID>) -> UnresolvedIDHistory? {
        let known = marks
        var new: [UInt64] = []
        for id in ids {
            let mark = Self.mark(id)
            if known.contains(mark) || new.contains(mark) { continue }
            new.append(mark)
            if new.count == Self.limit { break }
        }
        return new.isEmpty ? nil : UnresolvedIDHistory((known + new.reversed()).suffix(Self.limit))
    }

    private var marks: [UInt64] {
        stride(from: 0, to: stored.count - Self.width + 1, by: Self.width).map { start in
            stored[start..<start + Self.width].reversed().reduce(0) { $0 << 8 | UInt64($1) }
        }
    }

    /// Six bytes of a hash.
    ///
    /// UUIDs that differ in any byte differ here, independent of where their makers count.
    private static func mark(_ id: UUID) -> UInt64 {
        let hash = withUnsafeBytes(of: id.uuid) { SHA256.hash(data: $0) }
        return hash.prefix(width).reduce(0) { $0 << 8 | UInt64($1) }
    }
}
