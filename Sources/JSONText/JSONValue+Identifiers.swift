public import FoundationEssentials

extension JSONValue {
    /// Every UUID-shaped string value in this value, in document order.
    ///
    /// Duplicates are kept. Names do not count as values.
    public var uuids: [UUID] {
        storage.withSource { source in
            var found: [UUID] = []
            for index in index..<source[index].after where source[index].isUUID {
                if let uuid = source[index].uuid(in: source.bytes) { found.append(uuid) }
            }
            return found
        }
    }

    /// This value's text with UUID-shaped string values replaced.
    ///
    /// Every other byte is as written: numbers to the digit, white space, order. Nil if that changes nothing.
    ///
    /// - Parameter replacement: Called for each UUID in document order; nil leaves it as it is.
    public func rewritten(_ replacement: (UUID) -> JSONReplacement?) -> [UInt8]? { rewritten([], replacement) }
}

extension JSONNode {
    func isWritten(as replacement: JSONReplacement, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        var writer = JSONWriter(capacity: 64)
        writer.replacement(replacement)
        return writer.bytes.withUnsafeBufferPointer { text(in: bytes).isEqual(to: $0) }
    }
}

extension JSONWriter {
    /// Writes without a comma: the surrounding text has it already.
    mutating func replacement(_ replacement: JSONReplacement) {
        needsComma = false
        switch replacement {
        case .uuid(let uuid): self.uuid(uuid)
        case .string(let text): string(text)
        case .integer(let number): int(number)
        case .digits(let text): raw(text.utf8)
        }
    }
}
