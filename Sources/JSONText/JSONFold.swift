/// A JSON object to which many merge patches (RFC 7396) are applied in memory, and which is written once.
///
/// The cost of a patch depends only on the members in the patch. ``JSONValue/mergePatch(target:patch:maximumBytes:)``,
/// in contrast, reads and writes the whole document for each patch. The results of the two have the same value, but may
/// differ in white space.
public struct JSONFold: Sendable {
    /// The effect of a patch.
    public enum Effect: Sendable, Equatable {
        case changed
        /// The document already has every member of the patch with the patch's value.
        case unchanged
        /// The patched document would be too long. Nothing was changed.
        case tooLong
        /// The document or the patch has duplicate names, or is not an object. Nothing was changed.
        case unsupported
    }

    private struct Member: Sendable {
        /// The text of the name as written, with the colon and the white space around both.
        let head: ArraySlice<UInt8>
        /// The value as written; used only if ``child`` is nil.
        var text: ArraySlice<UInt8>
        /// The white space after the value.
        var tail: ArraySlice<UInt8>
        /// The index in ``objects`` if the value is an object that a patch changed; otherwise nil.
        var child: Int?
    }

    private struct Object: Sendable {
        /// The members in document order; nil for a removed member.
        var members: [Member?] = []
        var places: [[UInt8]: Int] = [:]
        /// The white space before the closing brace.
        var rest: ArraySlice<UInt8> = []
        /// The length of the object's text.
        var count = 2
    }

    /// The root, and the objects within it that patches changed.
    private var objects: [Object] = []

    /// Reads a document; nil if the document is not an object or has duplicate names.
    public init?(_ document: [UInt8]) {
        guard let root = Self.object(document[...]) else { return nil }
        objects = [root]
    }

    /// The length of the document's text.
    public var count: Int { objects[0].count }

    /// The document's text.
    public var text: [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(count)
        write(0, to: &text)
        return text
    }

    /// Applies a merge patch.
    ///
    /// - Parameters:
    ///   - isShallow: whether the patch's members replace whole members of the document. If so, null is a value and
    ///     removes nothing.
    ///   - isSame: returns whether two values are equal. Unless `isShallow`, it is called only if neither value is an
    ///     object.
    public mutating func merge(
        _ patch: JSONValue,
        isShallow: Bool = false,
        maximumBytes: Int,
        isSame: (_ old: [UInt8], _ new: [UInt8]) -> Bool
    ) -> Effect {
        let storage = patch.storage
        guard patch.node.isObject, let growth = growth(0, by: patch.index, of: storage, isShallow: isShallow) else {
            return .unsupported
        }
        guard count + growth <= maximumBytes else { return .tooLong }
        var isChanged = false
        _ = apply(patch.index, of: storage, to: 0, isShallow: isShallow, &isChanged, isSame)
        return isChanged ? .changed : .unchanged
    }

    // MARK: - Reading

    private static func object(_ text: ArraySlice<UInt8>) -> Object? {
        let bytes = Array(text)
        guard let storage = try? JSONStorage(parsing: bytes, limits: .widest), storage.nodes[0].isObject else {
            return nil
        }
        return storage.withSource { source in
            var object = Object()
            var spans = MemberSpans(of: 0, in: source)
            while let span = spans.next() {
                let name = source[span.name].withUnescaped(in: source.bytes) { Array($0) }
                let member = Member(
                    head: bytes[span.head],
                    text: bytes[source[span.name + 1].range],
                    tail: bytes[span.tail]
                )
                guard object.places.updateValue(object.members.count, forKey: name) == nil else { return nil }
                object.members.append(member)
            }
            object.rest = bytes[spans.rest]
            object.count = source[0].range.count
            return object
        }
    }

    /// Returns the index in ``objects`` of a member's value.
    ///
    /// Nil if the value is not an object or has duplicate names.
    private mutating func child(of object: Int, at place: Int) -> Int? {
        guard let member = objects[object].members[place] else { return nil }
        if let child = member.child { return child }
        guard member.text.first == UInt8(ascii: "{"), let read = Self.object(member.text) else { return nil }
        let child = objects.count
        objects.append(read)
        objects[object].members[place]?.child = child
        objects[object].members[place]?.text = []
        return child
    }

    private func isObject(_ member: Member) -> Bool {
        member.child != nil || member.text.first == UInt8(ascii: "{")
    }

    private func length(of member: Member) -> Int {
        member.head.count + member.tail.count + (member.child.map { objects[$0].count } ?? member.text.count)
    }

    // MARK: - Merging

    /// The names and values of an object in a patch; nil if a name is duplicate.
    private static func changes(_ object: Int, of storage: JSONStorage) -> [(name: [UInt8], node: Int)]? {
        storage.withSource { source in
            var changes: [(name: [UInt8], node: Int)] = []
            var seen: Set<[UInt8]> = []
            var member = object + 1
            while member < source[object].after {
                let name = source[member].withUnescaped(in: source.bytes) { Array($0) }
                guard seen.insert(name).inserted else { return nil }
                changes.append((name, member))
                member = source[member + 1].after
            }
            return changes
        }
    }

    /// The text that a patch's new value gets in the document.
    private static func created(_ value: Int, of storage: JSONStorage, isShallow: Bool) -> [UInt8] {
        storage.withSource { source in
            if isShallow { return Array(source[value].text(in: source.bytes)) }
            var creation = MergeCreation(patch: source)
            creation.write(value)
            return creation.out
        }
    }

    /// The number of bytes by which a patch makes an object longer; nil if the patch is not supported.
    ///
    /// The method changes no text.
    private mutating func growth(_ object: Int, by patch: Int, of storage: JSONStorage, isShallow: Bool) -> Int? {
        guard let changes = Self.changes(patch, of: storage) else { return nil }
        var growth = 0
        var live = objects[object].places.count
        for (name, node) in changes {
            let value = storage.nodes[node + 1]
            guard let place = objects[object].places[name], let member = objects[object].members[place] else {
                if value.isNull, !isShallow { continue }
                growth += storage.nodes[node].range.count + 1 + (live > 0 ? 1 : 0)
                growth += Self.created(node + 1, of: storage, isShallow: isShallow).count
                live += 1
                continue
            }
            if value.isNull, !isShallow {
                growth -= length(of: member) + (live > 1 ? 1 : 0)
                live -= 1
            } else if value.isObject, !isShallow, isObject(member) {
                guard let child = child(of: object, at: place),
                    let more = self.growth(child, by: node + 1, of: storage, isShallow: false)
                else { return nil }
                growth += more
            } else {
                growth += Self.created(node + 1, of: storage, isShallow: isShallow).count
                growth -= length(of: member) - member.head.count - member.tail.count
            }
        }
        return growth
    }

    /// - Returns: the number of bytes by which the object became longer.
    private mutating func apply(
        _ patch: Int,
        of storage: JSONStorage,
        to object: Int,
        isShallow: Bool,
        _ isChanged: inout Bool,
        _ isSame: ([UInt8], [UInt8]) -> Bool
    ) -> Int {
        let before = objects[object].count
        for (name, node) in Self.changes(patch, of: storage) ?? [] {
            let value = storage.nodes[node + 1]
            let live = objects[object].places.count
            guard let place = objects[object].places[name], let member = objects[object].members[place] else {
                if value.isNull, !isShallow { continue }
                let head = Array(storage.bytes[storage.nodes[node].range]) + [UInt8(ascii: ":")]
                let text = Self.created(node + 1, of: storage, isShallow: isShallow)
                objects[object].places[name] = objects[object].members.count
                objects[object].members.append(Member(head: head[...], text: text[...], tail: []))
                objects[object].count += head.count + text.count + (live > 0 ? 1 : 0)
                isChanged = true
                continue
            }
            if value.isNull, !isShallow {
                objects[object].count -= length(of: member) + (live > 1 ? 1 : 0)
                objects[object].members[place] = nil
                objects[object].places[name] = nil
                isChanged = true
            } else if value.isObject, !isShallow, isObject(member) {
                guard let child = child(of: object, at: place) else { continue }
                let growth = apply(node + 1, of: storage, to: child, isShallow: false, &isChanged, isSame)
                objects[object].count += growth
            } else {
                let new = Self.created(node + 1, of: storage, isShallow: isShallow)
                var old: [UInt8] = []
                writeValue(member, to: &old)
                if isShallow || !(isObject(member) || value.isObject), isSame(old, new) { continue }
                objects[object].members[place]?.child = nil
                objects[object].members[place]?.text = new[...]
                objects[object].count += new.count - old.count
                isChanged = true
            }
        }
        return objects[object].count - before
    }

    // MARK: - Writing

    private func writeValue(_ member: Member, to text: inout [UInt8]) {
        if let child = member.child { write(child, to: &text) } else { text += member.text }
    }

    /// The recursion is as deep as patches are nested. The limits of patches bound this depth.
    private func write(_ object: Int, to text: inout [UInt8]) {
        text.append(UInt8(ascii: "{"))
        var isFirst = true
        for case let member? in objects[object].members {
            if !isFirst { text.append(UInt8(ascii: ",")) }
            isFirst = false
            text += member.head
            writeValue(member, to: &text)
            text += member.tail
        }
        text += objects[object].rest
        text.append(UInt8(ascii: "}"))
    }
}
