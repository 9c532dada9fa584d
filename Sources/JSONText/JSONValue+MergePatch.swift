public import FoundationEssentials

extension JSONValue {
    /// Applies a JSON merge patch (RFC 7396) to a document.
    ///
    /// Members that are not in the patch keep their exact text and their position. New members follow, in the order of
    /// the patch. Apart from sorting the patch's names, the time is linear in the size of both texts.
    ///
    /// - Parameters:
    ///   - target: The document; nil if it does not exist.
    ///   - patch: The patch. If it is not an object, it replaces the document.
    ///   - maximumBytes: The maximum length of the result. The result is never longer than the two texts together and a
    ///     few commas.
    /// - Throws: An error if the target is not JSON; ``JSONParseError/Kind/tooLong`` if the result is too long.
    public static func mergePatch(
        target: [UInt8]?,
        patch: JSONValue,
        maximumBytes: Int = 16_777_216
    ) throws(JSONParseError) -> [UInt8] {
        let document: JSONStorage? =
            if let target, patch.node.isObject { try JSONStorage(parsing: target, limits: .widest) } else { nil }
        let result = patch.storage.withSource { patchSource in
            guard let document, document.nodes[0].isObject else {
                var creation = MergeCreation(patch: patchSource)
                creation.write(patch.index)
                return creation.out
            }
            return document.withSource { documentSource in
                var merge = Merge(document: documentSource, patch: patchSource, patchRoot: patch.index)
                merge.write(0, patchedBy: patch.index)
                return merge.creation.out
            }
        }
        guard result.count <= maximumBytes else { throw JSONParseError(kind: .tooLong, offset: maximumBytes) }
        return result
    }
}

/// The ranges of an object's members in its text.
///
/// The ranges include the white space around the members, but not the commas.
struct MemberSpans: Sequence, IteratorProtocol {
    struct Span {
        let name: Int
        /// The range from the preceding brace or comma to the value.
        let head: Range<Int>
        /// The range from the value to the following comma; empty for the last member.
        let tail: Range<Int>
    }

    let source: JSONSource
    let object: JSONNode
    var member: Int
    /// The range after the brace or comma that was read last.
    ///
    /// After the last member has been read, it is the part before the closing brace.
    var rest: Range<Int>

    init(of object: Int, in source: JSONSource) {
        self.source = source
        self.object = source[object]
        self.member = object + 1
        self.rest = self.object.range.lowerBound + 1..<self.object.range.upperBound - 1
    }

    mutating func next() -> Span? {
        guard member < object.after else { return nil }
        let name = member
        let value = source[name + 1]
        let head = rest.lowerBound..<value.range.lowerBound
        member = value.after
        var tail = value.range.upperBound..<value.range.upperBound
        rest = tail.upperBound..<rest.upperBound
        if member < object.after {
            var comma = tail.lowerBound
            while source.bytes[comma] != UInt8(ascii: ",") { comma += 1 }
            tail = tail.lowerBound..<comma
            rest = comma + 1..<rest.upperBound
        }
        return Span(name: name, head: head, tail: tail)
    }
}

/// Writes the result of a patch without a target.
///
/// The result is the patch without the members that are null.
struct MergeCreation {
    let patch: JSONSource
    var out: [UInt8] = []

    /// The recursion is as deep as the patch is nested. The patch's limits bound this depth.
    mutating func write(_ index: Int) {
        guard patch[index].isObject else {
            out.append(contentsOf: patch[index].text(in: patch.bytes))
            return
        }
        out.append(UInt8(ascii: "{"))
        var first = true
        var spans = MemberSpans(of: index, in: patch)
        while let span = spans.next() {
            if patch[span.name + 1].isNull { continue }
            separate(&first)
            out.append(contentsOf: patch.text(span.head))
            write(span.name + 1)
            out.append(contentsOf: patch.text(span.tail))
        }
        out.append(contentsOf: patch.text(spans.rest))
        out.append(UInt8(ascii: "}"))
    }

    mutating func separate(_ first: inout Bool) {
        if !first { out.append(UInt8(ascii: ",")) }
        first = false
    }
}

/// Writes an object of the document after applying an object of the patch.
private struct Merge: ~Copyable {
    let document: JSONSource
    let patch: JSONSource
    var creation: MergeCreation
    var keys: MemberKeys

    init(document: JSONSource, patch: JSONSource, patchRoot: Int) {
        self.document = document
        self.patch = patch
        self.creation = MergeCreation(patch: patch)
        self.keys = MemberKeys(within: patchRoot, of: patch)
    }

    /// The recursion is as deep as the two texts are nested. Their limits bound this depth.
    mutating func write(_ object: Int, patchedBy patchObject: Int) {
        let changes = keys.push(patchObject)
        var isUsed = [Bool](repeating: false, count: changes.count)
        var first = true
        creation.out.append(UInt8(ascii: "{"))
        var spans = MemberSpans(of: object, in: document)
        while let span = spans.next() {
            guard let change = position(of: span.name, among: changes) else {
                creation.separate(&first)
                creation.out.append(contentsOf: document.text(span.head))
                creation.out.append(contentsOf: document[span.name + 1].text(in: document.bytes))
                creation.out.append(contentsOf: document.text(span.tail))
                continue
            }
            isUsed[change - changes.lowerBound] = true
            let new = keys.stack[change].node + 1
            if patch[new].isNull { continue }
            creation.separate(&first)
            creation.out.append(contentsOf: document.text(span.head))
            writeValue(span.name + 1, patchedBy: new)
            creation.out.append(contentsOf: document.text(span.tail))
        }
        for name in additions(changes, isUsed: isUsed) {
            creation.separate(&first)
            creation.out.append(contentsOf: patch[name].text(in: patch.bytes))
            creation.out.append(UInt8(ascii: ":"))
            creation.write(name + 1)
        }
        creation.out.append(contentsOf: document.text(spans.rest))
        creation.out.append(UInt8(ascii: "}"))
        keys.pop(changes)
    }

    private mutating func writeValue(_ old: Int, patchedBy new: Int) {
        if document[old].isObject, patch[new].isObject {
            write(old, patchedBy: new)
        } else {
            creation.write(new)
        }
    }

    /// Returns the position of the patch's member with the name of a document's member; the last one if there are
    /// several.
    private func position(of name: Int, among changes: Range<Int>) -> Int? {
        document[name].withUnescaped(in: document.bytes) { name in
            let key = MemberKey(name: name, node: 0)
            var low = changes.lowerBound
            var high = changes.upperBound
            while low < high {
                let middle = (low + high) / 2
                if keys.stack[middle].order(against: key) <= 0 { low = middle + 1 } else { high = middle }
            }
            guard low > changes.lowerBound, keys.stack[low - 1].order(against: key) == 0 else { return nil }
            return low - 1
        }
    }

    /// Returns the names of the non-null members that are in the patch but not in the document, in the patch's order.
    ///
    /// If several members have the same name, the last member is used.
    private func additions(_ changes: Range<Int>, isUsed: [Bool]) -> [Int] {
        var names: [Int] = []
        for position in changes where !isUsed[position - changes.lowerBound] {
            let key = keys.stack[position]
            if patch[key.node + 1].isNull { continue }
            let next = position + 1
            if next < changes.upperBound, keys.stack[next].order(against: key) == 0 { continue }
            names.append(key.node)
        }
        names.sort()
        return names
    }
}

extension JSONValue {
    /// Returns this value's text, with some of its values and UUID strings replaced; nil if nothing changes.
    ///
    /// All other bytes are as written.
    ///
    /// - Parameters:
    ///   - edits: Edits of values within this value, in document order. An edit takes precedence over `replacement`.
    ///   - replacement: Called for each UUID, as in ``rewritten(_:)``.
    public func rewritten(
        _ edits: [JSONEdit],
        _ replacement: (UUID) -> JSONReplacement? = { _ in nil }
    ) -> [UInt8]? {
        storage.withSource { source in
            var writer = JSONWriter(capacity: 0)
            // everything before this byte has already been copied or replaced
            var done = node.range.lowerBound
            forEachReplacement(in: source, edits, replacement) { new, node in
                guard !node.isWritten(as: new, in: source.bytes) else { return }
                if writer.bytes.isEmpty { writer.bytes.reserveCapacity(rawCount + 64) }
                writer.bytes.append(contentsOf: source.text(done..<node.range.lowerBound))
                writer.replacement(new)
                done = node.range.upperBound
            }
            if writer.bytes.isEmpty { return nil }
            writer.bytes.append(contentsOf: source.text(done..<node.range.upperBound))
            return writer.bytes
        }
    }

    /// Returns the number of bytes of the text that ``rewritten(_:_:)`` returns, without creating the text.
    ///
    /// If nothing changes, the result is ``rawCount``.
    public func rewrittenCount(
        _ edits: [JSONEdit],
        _ replacement: (UUID) -> JSONReplacement? = { _ in nil }
    ) -> Int {
        storage.withSource { source in
            var count = rawCount
            forEachReplacement(in: source, edits, replacement) { new, node in
                count += new.count - node.range.count
            }
            return count
        }
    }

    /// Calls `body` with each replacement and the node that it replaces, in document order.
    private func forEachReplacement(
        in source: JSONSource,
        _ edits: [JSONEdit],
        _ replacement: (UUID) -> JSONReplacement?,
        _ body: (JSONReplacement, JSONNode) -> Void
    ) {
        var edit = 0
        for index in index..<source[index].after {
            if edit < edits.count, edits[edit].value.index == index {
                body(edits[edit].replacement, source[index])
                edit += 1
            } else if source[index].isUUID, let uuid = source[index].uuid(in: source.bytes),
                let new = replacement(uuid)
            {
                body(new, source[index])
            }
        }
    }
}

/// A value and its replacement.
public struct JSONEdit: Sendable {
    let value: JSONValue
    let replacement: JSONReplacement

    public init(_ value: JSONValue, _ replacement: JSONReplacement) {
        self.value = value
        self.replacement = replacement
    }
}
