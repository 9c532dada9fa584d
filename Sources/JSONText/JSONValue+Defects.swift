import CSimdJSON

extension JSONValue {
    private static var reportedDefects: Int { 64 }

    /// Whether this value has defects. The search takes logarithmic time in the number of defects in the text.
    public var hasDefects: Bool { !defectRange.isEmpty }

    /// The first 64 defects in this value, in document order.
    ///
    /// The defects' pointers are relative to this value.
    public var defects: [JSONDefect] {
        let range = defectRange.prefix(Self.reportedDefects)
        if range.isEmpty { return [] }
        let found = storage.defects[range.startIndex..<range.endIndex]
        var locator = DefectLocator(storage: storage, pending: found)
        storage.bytes.withUnsafeBufferPointer { bytes in
            locator.visit(index, path: DefectPath(), bytes: bytes)
        }
        return locator.located
    }

    /// The first member of this value, in document order, whose name an earlier member of the same object has; nil
    /// without such a member.
    ///
    /// Only the first 64 defects are examined.
    public var firstRepeatedMember: JSONDefect? { defects.first { $0.kind == .duplicateMember } }

    /// Whether a JSON Pointer has more than one meaning, because a member on the way to its value is repeated in its
    /// object. If this value has 64 defects or more, all pointers count as ambiguous.
    public func isAmbiguous(at pointer: String) -> Bool {
        let defects = defects
        return defects.count >= Self.reportedDefects
            || defects.contains {
                $0.kind == .duplicateMember && (pointer + "/").utf8.starts(with: ($0.pointer + "/").utf8)
            }
    }

    /// The range of this value's defects in the list of the text's defects. The list is in the order of the nodes.
    private var defectRange: Range<Int> {
        let defects = storage.defects
        if defects.isEmpty { return 0..<0 }
        return Self.firstDefect(of: defects, from: index)..<Self.firstDefect(of: defects, from: node.after)
    }

    private static func firstDefect(of defects: UnsafeBufferPointer<csj_defect>, from node: Int) -> Int {
        var low = 0
        var high = defects.count
        while low < high {
            let middle = (low + high) / 2
            if defects[middle].node < node { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

/// The path to a value. A path that is too long is truncated.
private struct DefectPath {
    static let longest = 1_024

    var pointer = JSONPointer()
    var isCut = false

    var text: String { isCut ? pointer.text + "/…" : pointer.text }

    /// Returns the path with one more step.
    ///
    /// `length` is an upper bound of the step's length. The step is added only if the path has space for it.
    func stepping(length: Int, _ step: (inout JSONPointer) -> Void) -> DefectPath {
        var deeper = self
        if isCut || pointer.text.utf8.count + length > Self.longest {
            deeper.isCut = true
        } else {
            step(&deeper.pointer)
        }
        return deeper
    }
}

/// Finds the paths of defects, in document order.
///
/// Each array or object that contains defects is visited once.
private struct DefectLocator {
    let storage: JSONStorage
    var pending: Slice<UnsafeBufferPointer<csj_defect>>
    var located: [JSONDefect] = []

    /// The recursion is as deep as the text is nested. The text's limits bound this depth.
    mutating func visit(_ index: Int, path: DefectPath, bytes: UnsafeBufferPointer<UInt8>) {
        let node = storage.nodes[index]
        take(index, path: path)
        var child = index + 1
        var position = 0
        while let defect = pending.first, defect.node < node.after {
            let value = node.isObject ? child + 1 : child
            let end = storage.nodes[value].after
            if Int(defect.node) < end {
                let deeper = step(from: path, into: child, at: position, bytes: bytes)
                if node.isObject { take(child, path: deeper) }
                visit(value, path: deeper, bytes: bytes)
            }
            child = end
            position += 1
        }
    }

    private func step(
        from path: DefectPath,
        into child: Int,
        at position: Int,
        bytes: UnsafeBufferPointer<UInt8>
    ) -> DefectPath {
        let name = storage.nodes[child]
        guard name.isName else { return path.stepping(length: 0) { $0.append(index: position) } }
        return path.stepping(length: name.range.count) { $0.append(member: name.string(in: bytes)) }
    }

    private mutating func take(_ index: Int, path: DefectPath) {
        while let defect = pending.first, defect.node == index {
            pending = pending.dropFirst()
            let kind = JSONDefect.Kind(rawValue: UInt32(defect.kind)) ?? .duplicateMember
            located.append(JSONDefect(kind: kind, nodeIndex: index, pointer: path.text))
        }
    }
}

/// A part of a text that JSON's grammar allows, but that the gateway rejects because the part is ambiguous or cannot be
/// stored.
public struct JSONDefect: Sendable, Equatable {
    /// The raw values are the numbers of `csj_defect_kind`.
    public enum Kind: UInt32, Sendable {
        /// A name that, when unescaped, equals the unescaped name of an earlier member (RFC 8259, section 4).
        case duplicateMember = 0
        /// A string or name with U+0000, which PostgreSQL's type `text` cannot store.
        case nulCharacter
        /// A string or name with half of a surrogate pair, which is not valid Unicode text.
        case loneSurrogate
        /// A number outside the range of PostgreSQL's numeric.
        ///
        /// Such a number has more than 131,072 digits before the decimal point, or more than 16,383 digits after it.
        case numberOutOfRange
    }

    public let kind: Kind
    /// The index of the faulty value or name among the nodes of the whole text.
    public let nodeIndex: Int
    /// The JSON Pointer to the faulty value, or to the value of the faulty name.
    ///
    /// The pointer starts at the value whose defects were requested (RFC 6901). A pointer of more than a kilobyte is
    /// truncated, and ends with "…".
    public let pointer: String

    /// Compares the pointer's bytes.
    public static func == (left: JSONDefect, right: JSONDefect) -> Bool {
        left.kind == right.kind && left.nodeIndex == right.nodeIndex && left.pointer == right.pointer
    }

    /// The defect, as a sentence for the person who sent the text.
    public var explanation: String {
        switch kind {
        case .duplicateMember: "The object has more than one member of this name."
        case .nulCharacter: "The character U+0000 is not allowed."
        case .loneSurrogate: "A surrogate escape is unpaired, so this is not Unicode text."
        case .numberOutOfRange:
            "The number has more than 131072 digits before or 16383 digits after the decimal point."
        }
    }
}
