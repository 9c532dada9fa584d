internal import Glibc

extension UnsafeBufferPointer<UInt8> {
    func isEqual(to other: UnsafeBufferPointer<UInt8>) -> Bool {
        guard count == other.count else { return false }
        guard let mine = baseAddress, let others = other.baseAddress else { return true }
        return memcmp(mine, others, count) == 0
    }

    /// Below 0, 0, or above 0: byte by byte, and a prefix comes first.
    func order(against other: UnsafeBufferPointer<UInt8>) -> Int {
        if let mine = baseAddress, let others = other.baseAddress {
            let order = memcmp(mine, others, Swift.min(count, other.count))
            if order != 0 { return Int(order) }
        }
        return count - other.count
    }
}
