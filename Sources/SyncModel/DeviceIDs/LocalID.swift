import Crypto
public import Foundation

/// The id of an entity on one device, for types with device ids (seed 002).
///
/// A 64-bit integer from the device's own counter. On another device the same number means another entity, and the same
/// entity has another number.
public struct LocalID: Sendable, Hashable, Comparable {
    @Exact public private(set) var entityType: String
    /// Any 64-bit integer; devices count from 1.
    public let number: Int64

    public init(entityType: String, number: Int64) {
        self.entityType = entityType
        self.number = number
    }

    /// The UUID that represents this id where the gateway uses client ids.
    ///
    /// The gateway uses it in look-ups, dependencies, and the mutations that a blocked one waits for. A hash of device,
    /// type and number, so that every gateway computes the same; no client sees it. A UUID of version 8 (RFC 9562,
    /// 5.8).
    public func clientID(on device: UUID) -> UUID {
        var hash = SHA256()
        withUnsafeBytes(of: device.uuid) { hash.update(bufferPointer: $0) }
        withUnsafeBytes(of: number.bigEndian) { hash.update(bufferPointer: $0) }
        var name = entityType
        name.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        return UUID(hash: hash.finalize())
    }

    /// By type, then by number: the order of the rows' key.
    public static func < (left: LocalID, right: LocalID) -> Bool {
        (left.entityType, left.number) < (right.entityType, right.number)
    }

    /// The id as problems name it.
    var words: String { "local id \(number) in '\(entityType)'" }
}
