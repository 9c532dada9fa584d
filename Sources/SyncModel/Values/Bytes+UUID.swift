import Foundation

extension [UInt8] {
    /// Adds the 16 bytes of an id.
    mutating func append(_ id: UUID) {
        Swift.withUnsafeBytes(of: id.uuid) { append(contentsOf: $0) }
    }
}
