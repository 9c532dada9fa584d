public import Foundation

extension UUID {
    /// The next greater id in PostgreSQL's order, which is by bytes. Nil after the last one.
    public var successor: UUID? {
        var bytes = withUnsafeBytes(of: uuid) { Array($0) }
        for index in bytes.indices.reversed() {
            bytes[index] &+= 1
            // no carry
            if bytes[index] != 0 {
                return bytes.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) }
            }
        }
        return nil
    }
}
