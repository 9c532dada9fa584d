public import FoundationEssentials

extension JSONValue {
    /// This value's text with some values and its UUID-shaped strings replaced.
    ///
    /// Every other byte is as written. Nil if that changes nothing.
    ///
    /// - Parameters:
    ///   - edits: Of values of this tree, within this value and in document order. They take precedence.
    ///   - replacement: As in ``rewritten(_:)``.
    public func rewritten(
        _ edits: [JSONEdit],
        _ replacement: (UUID) -> JSONReplacement? = { _ in nil }
    ) -> [UInt8]? {
        storage.withSource { source in
            var writer = JSONWriter(capacity: 0)
            // everything before this byte is copied or replaced
            var done = node.range.lowerBound
            var edit = 0
            func put(_ new: JSONReplacement, _ node: JSONNode) {
                guard !node.isWritten(as: new, in: source.bytes) else { return }
                if writer.bytes.isEmpty { writer.bytes.reserveCapacity(rawCount + 64) }
                writer.bytes.append(contentsOf: source.text(done..<node.range.lowerBound))
                writer.replacement(new)
                done = node.range.upperBound
            }
            for index in index..<source[index].after {
                if edit < edits.count, edits[edit].value.index == index {
                    put(edits[edit].replacement, source[index])
                    edit += 1
                } else if source[index].isUUID, let uuid = source[index].uuid(in: source.bytes),
                    let new = replacement(uuid)
                {
                    put(new, source[index])
                }
            }
            if writer.bytes.isEmpty { return nil }
            writer.bytes.append(contentsOf: source.text(done..<node.range.upperBound))
            return writer.bytes
        }
    }
}
