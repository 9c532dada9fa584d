/// Counts the occurrences of a text in bytes (Boyer, Moore, Horspool).
///
/// Mostly it reads only one byte in as many as the text is long.
struct ByteFinder {
    private let text: UnsafeBufferPointer<UInt8>
    /// The distance to skip for each value of the byte that is compared with the text's last byte.
    private let shifts: UnsafePointer<Int>

    /// Lives as long as the process does.
    init(_ text: String) {
        let bytes = Array(text.utf8)
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: bytes.count)
        _ = copy.update(fromContentsOf: bytes)
        let table = UnsafeMutablePointer<Int>.allocate(capacity: 256)
        table.initialize(repeating: bytes.count, count: 256)
        for (index, byte) in bytes.dropLast().enumerated() { table[Int(byte)] = bytes.count - 1 - index }
        self.text = UnsafeBufferPointer(copy)
        shifts = UnsafePointer(table)
    }

    func count(in bytes: UnsafeBufferPointer<UInt8>) -> Int {
        let last = text.count - 1
        var found = 0
        var end = last
        while end < bytes.count {
            let byte = bytes[end]
            if byte == text[last], matches(bytes, endingAt: end) {
                found += 1
                end += text.count
            } else {
                end &+= shifts[Int(byte)]
            }
        }
        return found
    }

    private func matches(_ bytes: UnsafeBufferPointer<UInt8>, endingAt end: Int) -> Bool {
        let start = end - text.count + 1
        for index in 0..<text.count where bytes[start + index] != text[index] { return false }
        return true
    }
}
