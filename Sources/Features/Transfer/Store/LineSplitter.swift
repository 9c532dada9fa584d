/// Splits a stream of bytes into lines. The splitter stores at most one line, and skips lines that are too long.
package struct LineSplitter: Sendable {
    package struct Line: Sendable, Hashable {
        /// The number of the line, from 1.
        package let number: Int
        /// The line without its line ending; nil for a line that is too long.
        package let text: [UInt8]?
    }

    /// The maximum length of a stored line, in bytes.
    package let limit: Int
    private var rest: [UInt8] = []
    private var isTooLong = false
    private var number = 0

    package init(limit: Int) {
        self.limit = limit
    }

    /// Returns the lines that end in the next part of the stream. Blank lines are omitted.
    package mutating func take(_ part: some Collection<UInt8>) -> [Line] {
        var lines: [Line] = []
        var rest = part[...]
        while let end = rest.firstIndex(of: 0x0a) {
            hold(rest[..<end])
            if let line = endLine() { lines.append(line) }
            rest = rest[rest.index(after: end)...]
        }
        hold(rest)
        return lines
    }

    /// Returns the last line, if the stream does not end with a line feed.
    package mutating func finish() -> Line? {
        rest.isEmpty && !isTooLong ? nil : endLine()
    }

    private mutating func hold(_ part: some Collection<UInt8>) {
        guard !isTooLong else { return }
        if rest.count + part.count > limit {
            isTooLong = true
            rest = []
        } else {
            rest += part
        }
    }

    private mutating func endLine() -> Line? {
        number += 1
        defer { (rest, isTooLong) = ([], false) }
        if isTooLong { return Line(number: number, text: nil) }
        // removes the byte order mark before the first line, and the carriage return of a Windows line ending
        if number == 1, rest.starts(with: [0xef, 0xbb, 0xbf]) { rest.removeFirst(3) }
        if rest.last == 0x0d { rest.removeLast() }
        let isBlank = rest.allSatisfy { $0 == 0x20 || $0 == 0x09 }
        return isBlank ? nil : Line(number: number, text: rest)
    }
}
