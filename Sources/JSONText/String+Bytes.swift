// In Swift, canonically equivalent texts are equal, such as `é` and `e` with an accent, or `K` and the Kelvin sign. But
// PostgreSQL, SQLite and HTTP compare ids, names and headers by their bytes. This file redefines `==`, `<`, `switch`
// and some searches, so that they compare bytes. The compiler prefers a module's own operators to the operators of the
// standard library.
//
// Every target needs a symbolic link to this file; `scripts/lint-text` checks this. Generic code still uses the
// operators of the standard library, for example in `Set<String>`, `[String: …]`, synthesized `Hashable` and tuples. In
// such code, use `ByteExactString` and `@Exact`.

extension String {
    /// Whether both texts have the same bytes.
    @inline(__always)
    func hasSameBytes(as other: String) -> Bool { isSameValue(as: other) || hasEqualBytes(other) }

    /// Whether both texts have the same representation in memory.
    ///
    /// Texts of up to 15 bytes are stored in the value itself.
    @inline(__always)
    private func isSameValue(as other: String) -> Bool {
        guard MemoryLayout<String>.size == MemoryLayout<SIMD2<UInt64>>.size else { return false }
        return unsafeBitCast(self, to: SIMD2<UInt64>.self) == unsafeBitCast(other, to: SIMD2<UInt64>.self)
    }

    private func hasEqualBytes(_ other: String) -> Bool {
        guard utf8.count == other.utf8.count else { return false }
        let isSame = utf8.withContiguousStorageIfAvailable { mine in
            other.utf8.withContiguousStorageIfAvailable { UnsafeRawBufferPointer(mine).hasSameBytes(as: $0) }
        }
        return isSame.flatMap { $0 } ?? utf8.elementsEqual(other.utf8)
    }

    static func == (left: String, right: String) -> Bool { left.hasSameBytes(as: right) }
    static func != (left: String, right: String) -> Bool { !left.hasSameBytes(as: right) }
    static func == (left: String, right: Substring) -> Bool { left.utf8.elementsEqual(right.utf8) }
    static func != (left: String, right: Substring) -> Bool { !left.utf8.elementsEqual(right.utf8) }
    static func ~= (pattern: String, text: String) -> Bool { pattern.hasSameBytes(as: text) }
    static func ~= (pattern: String, text: Substring) -> Bool { pattern.utf8.elementsEqual(text.utf8) }

    // The order of PostgreSQL's collation "C".
    static func < (left: String, right: String) -> Bool { left.utf8.lexicographicallyPrecedes(right.utf8) }
    static func > (left: String, right: String) -> Bool { right.utf8.lexicographicallyPrecedes(left.utf8) }
    static func <= (left: String, right: String) -> Bool { !right.utf8.lexicographicallyPrecedes(left.utf8) }
    static func >= (left: String, right: String) -> Bool { !left.utf8.lexicographicallyPrecedes(right.utf8) }

}

extension Substring {
    static func == (left: Substring, right: Substring) -> Bool { left.utf8.elementsEqual(right.utf8) }
    static func != (left: Substring, right: Substring) -> Bool { !left.utf8.elementsEqual(right.utf8) }
    static func == (left: Substring, right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }
    static func != (left: Substring, right: String) -> Bool { !left.utf8.elementsEqual(right.utf8) }

}

extension Optional where Wrapped == String {
    static func == (left: String?, right: String?) -> Bool {
        switch (left, right) {
        case (nil, nil): true
        case (let left?, let right?): left.hasSameBytes(as: right)
        default: false
        }
    }

    static func != (left: String?, right: String?) -> Bool { !(left == right) }
    static func ~= (pattern: String?, text: String?) -> Bool { pattern == text }
}

extension Optional where Wrapped == Substring {
    static func == (left: Substring?, right: Substring?) -> Bool {
        switch (left, right) {
        case (nil, nil): true
        case (let left?, let right?): left.utf8.elementsEqual(right.utf8)
        default: false
        }
    }

    static func != (left: Substring?, right: Substring?) -> Bool { !(left == right) }
}

extension Array where Element == String {
    static func == (left: [String], right: [String]) -> Bool { left.elementsEqual(right) { $0.hasSameBytes(as: $1) } }
    static func != (left: [String], right: [String]) -> Bool { !(left == right) }

    func contains(_ text: String) -> Bool { contains { $0.hasSameBytes(as: text) } }
    func firstIndex(of text: String) -> Int? { firstIndex { $0.hasSameBytes(as: text) } }
    mutating func sort() { sort { $0.utf8.lexicographicallyPrecedes($1.utf8) } }
}

extension Sequence where Element == String {
    func sorted() -> [String] { sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) } }
}

func == (left: (String, String), right: (String, String)) -> Bool { left.0 == right.0 && left.1 == right.1 }
func != (left: (String, String), right: (String, String)) -> Bool { !(left == right) }
func < (left: (String, String), right: (String, String)) -> Bool {
    left.0 == right.0 ? left.1 < right.1 : left.0 < right.0
}

/// Searches for a character by its bytes.
///
/// A delimiter and a combining mark after the delimiter, such as `/` and U+0338, are one `Character`. The standard
/// library therefore does not find the delimiter.
extension StringProtocol {
    func split(
        separator: Character,
        maxSplits: Int = .max,
        omittingEmptySubsequences: Bool = true
    ) -> [Substring] {
        let (separator, text) = (String(separator), Substring(self))
        var parts: [Substring] = []
        var start = text.startIndex
        while parts.count < maxSplits, let found = text.range(of: separator, from: start) {
            if !omittingEmptySubsequences || start < found.lowerBound { parts.append(text[start..<found.lowerBound]) }
            start = found.upperBound
        }
        if !omittingEmptySubsequences || start < text.endIndex { parts.append(text[start...]) }
        return parts
    }

    func firstIndex(of character: Character) -> String.Index? { range(of: String(character))?.lowerBound }

    func lastIndex(of character: Character) -> String.Index? {
        let (wanted, text) = (String(character), Substring(self))
        var last: String.Index?
        var place = text.startIndex
        while let found = text.range(of: wanted, from: place) { (last, place) = (found.lowerBound, found.upperBound) }
        return last
    }

    /// The text without white space and newlines at its beginning and end.
    ///
    /// This property replaces a function of Foundation, with which all of Foundation and its Unicode data (43 MB) would
    /// be linked. FoundationEssentials has everything else that the gateway uses.
    var trimmed: String {
        let start = drop(while: \.isWhitespace)
        let end = start.lastIndex { !$0.isWhitespace }.map(start.index(after:)) ?? start.startIndex
        return String(start[..<end])
    }

    /// The part before the first delimiter; the whole text if it contains none of the delimiters.
    func before(_ delimiters: Character...) -> Substring {
        let text = Substring(self)
        return text[..<(delimiters.compactMap { text.firstIndex(of: $0) }.min() ?? text.endIndex)]
    }

    /// The part from the first delimiter to the end; empty if the text contains none of the delimiters.
    func from(_ delimiters: Character...) -> Substring {
        let text = Substring(self)
        return text[(delimiters.compactMap { text.firstIndex(of: $0) }.min() ?? text.endIndex)...]
    }

    func range(of text: String) -> Range<String.Index>? { Substring(self).range(of: text, from: startIndex) }

    func contains(_ text: String) -> Bool { range(of: text) != nil }

    /// Replaces each occurrence of a text, which is found by its bytes. SQL quoting depends on this: PostgreSQL
    /// recognizes a quote even if a combining mark follows, so the quote must be found and doubled.
    func replacing(_ text: String, with replacement: String) -> String {
        let whole = Substring(self)
        var (result, place) = ("", startIndex)
        while !text.isEmpty, let found = whole.range(of: text, from: place) {
            result += whole[place..<found.lowerBound]
            result += replacement
            place = found.upperBound
        }
        return result + whole[place...]
    }

    func contains(_ character: Character) -> Bool { range(of: String(character)) != nil }
}

extension Substring {
    fileprivate func range(of text: String, from start: Index) -> Range<Index>? {
        let (bytes, wanted) = (utf8, text.utf8)
        guard let first = wanted.first else { return start..<start }
        var place = start
        while let found = bytes[place...].firstIndex(of: first) {
            if bytes[found...].starts(with: wanted) {
                return found..<bytes.index(found, offsetBy: wanted.count)
            }
            place = bytes.index(after: found)
        }
        return nil
    }
}

// `String` and `Substring` have their own versions of these methods, which the compiler prefers to methods of an
// extension of `StringProtocol`.

extension String {
    func hasPrefix(_ prefix: String) -> Bool { utf8.starts(with: prefix.utf8) }
    func hasSuffix(_ suffix: String) -> Bool { utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) }
    func lowercased() -> String { lowercasedASCII }
    func uppercased() -> String { uppercasedASCII }
}

extension Substring {
    func hasPrefix(_ prefix: String) -> Bool { utf8.starts(with: prefix.utf8) }
    func hasSuffix(_ suffix: String) -> Bool { utf8.suffix(suffix.utf8.count).elementsEqual(suffix.utf8) }
    func lowercased() -> String { lowercasedASCII }
    func uppercased() -> String { uppercasedASCII }
}

/// Header names, schemes and similar texts ignore case only for ASCII letters.
///
/// Unicode's mapping would turn the Kelvin sign into `k`.
extension StringProtocol {
    fileprivate var lowercasedASCII: String { mapped(65...90) { $0 | 0x20 } }
    fileprivate var uppercasedASCII: String { mapped(97...122) { $0 & 0xdf } }

    private func mapped(_ range: ClosedRange<UInt8>, _ change: (UInt8) -> UInt8) -> String {
        guard utf8.contains(where: range.contains) else { return String(self) }
        return String(decoding: utf8.map { range.contains($0) ? change($0) : $0 }, as: UTF8.self)
    }
}

extension UnsafeRawBufferPointer {
    /// Whether two buffers of the same length have the same bytes.
    fileprivate func hasSameBytes(as other: UnsafeBufferPointer<UInt8>) -> Bool {
        let other = UnsafeRawBufferPointer(other)
        var place = 0
        while place &+ 8 <= count {
            let mine = loadUnaligned(fromByteOffset: place, as: UInt64.self)
            guard mine == other.loadUnaligned(fromByteOffset: place, as: UInt64.self) else { return false }
            place &+= 8
        }
        while place < count {
            guard self[place] == other[place] else { return false }
            place &+= 1
        }
        return true
    }
}
