import CSimdJSON
public import FoundationEssentials

extension JSONValue {
    /// The byte that represents a UUID in the canonical form. No JSON text contains it.
    public static let identifierMarker: UInt8 = 0x01

    /// Appends the canonical form, in which values with the same meaning have the same bytes.
    ///
    /// Fingerprints of mutations are hashes of this form.
    ///
    /// Members are sorted by the bytes of their unescaped names. White space is removed, strings have only the
    /// necessary escapes, and numbers stay as written. Every string value that is a UUID becomes ``identifierMarker``,
    /// and the UUID is appended to `identifiers`. The UUIDs are in the order of their markers. Apart from sorting the
    /// members, the time is linear in the size of the value. At most ``rawCount`` bytes are appended.
    public func appendCanonical(to bytes: inout [UInt8], identifiers: inout [UUID]) {
        let count = rawCount
        storage.withSource { source in
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: count) { buffer in
                guard let start = buffer.baseAddress else { return }
                var form = CanonicalForm(of: index, in: source, at: start)
                form.write(index)
                bytes.append(contentsOf: UnsafeBufferPointer(start: start, count: form.out - start))
                identifiers.append(contentsOf: form.identifiers)
            }
        }
    }
}

/// Writes the canonical form. The canonical form of a value is never longer than the value's text.
private struct CanonicalForm: ~Copyable {
    let source: JSONSource
    var out: UnsafeMutablePointer<UInt8>
    var identifiers: [UUID] = []
    var keys: MemberKeys

    init(of value: Int, in source: JSONSource, at out: UnsafeMutablePointer<UInt8>) {
        self.source = source
        self.out = out
        self.keys = MemberKeys(within: value, of: source)
    }

    /// The recursion is as deep as the text is nested. The text's limits bound this depth.
    mutating func write(_ index: Int) {
        let node = source[index]
        if node.isObject {
            writeObject(index)
        } else if node.isArray {
            writeArray(index, end: node.after)
        } else if node.isUUID, let uuid = node.uuid(in: source.bytes) {
            identifiers.append(uuid)
            put(JSONValue.identifierMarker)
        } else {
            writeScalar(node)
        }
    }

    private mutating func writeObject(_ index: Int) {
        put(UInt8(ascii: "{"))
        let members = keys.push(index)
        for position in members {
            if position > members.lowerBound { put(UInt8(ascii: ",")) }
            let name = keys.stack[position].node
            writeScalar(source[name])
            put(UInt8(ascii: ":"))
            write(name + 1)
        }
        keys.pop(members)
        put(UInt8(ascii: "}"))
    }

    private mutating func writeArray(_ index: Int, end: Int) {
        put(UInt8(ascii: "["))
        var element = index + 1
        while element < end {
            if element > index + 1 { put(UInt8(ascii: ",")) }
            write(element)
            element = source[element].after
        }
        put(UInt8(ascii: "]"))
    }

    private mutating func writeScalar(_ node: JSONNode) {
        guard node.hasEscapes else {
            let text = node.text(in: source.bytes)
            guard let start = text.baseAddress else { return }
            out.update(from: start, count: text.count)
            out += text.count
            return
        }
        let content = node.content(in: source.bytes)
        put(UInt8(ascii: "\""))
        out += csj_normalize_escapes(content.baseAddress, content.count, out)
        put(UInt8(ascii: "\""))
    }

    private mutating func put(_ byte: UInt8) {
        out.pointee = byte
        out += 1
    }
}

// MARK: - CanonicalReplacement

/// A replacement for a value in the canonical form.
public enum CanonicalReplacement: Sendable, Equatable {
    /// The marker of a UUID.
    case identifier
    /// The canonical form of another value.
    case value(JSONReplacement)
}

extension JSONValue {
    /// Appends the canonical form of this value, with some strings and numbers replaced.
    ///
    /// Use this form to compare values. It takes linear time, but is slower than ``appendCanonical(to:identifiers:)``.
    ///
    /// - Parameter replacement: called for each string and number in the order of the canonical form, with the offset
    ///   in `bytes` at which the value begins. If the closure returns nil, the value is not changed. A UUID becomes
    ///   ``identifierMarker`` only if the closure returns ``CanonicalReplacement/identifier``.
    public func appendCanonical(
        to bytes: inout [UInt8],
        replacing replacement: (JSONValue, Int) -> CanonicalReplacement?
    ) {
        storage.withSource { source in
            var form = ReplacedForm(of: self, in: source, at: bytes)
            form.write(index, replacement)
            bytes = form.out
        }
    }
}

/// Writes the canonical form with replacements.
private struct ReplacedForm: ~Copyable {
    private let storage: JSONStorage
    private let source: JSONSource
    private(set) var out: [UInt8]
    private var keys: MemberKeys

    init(of value: JSONValue, in source: JSONSource, at out: [UInt8]) {
        storage = value.storage
        self.source = source
        self.out = out
        keys = MemberKeys(within: value.index, of: source)
    }

    /// The recursion is as deep as the text is nested. The text's limits bound this depth.
    mutating func write(_ index: Int, _ replacement: (JSONValue, Int) -> CanonicalReplacement?) {
        let node = source[index]
        if node.isObject {
            out.append(UInt8(ascii: "{"))
            let members = keys.push(index)
            for position in members {
                if position > members.lowerBound { out.append(UInt8(ascii: ",")) }
                let name = keys.stack[position].node
                writeScalar(source[name])
                out.append(UInt8(ascii: ":"))
                write(name + 1, replacement)
            }
            keys.pop(members)
            out.append(UInt8(ascii: "}"))
        } else if node.isArray {
            out.append(UInt8(ascii: "["))
            var element = index + 1
            while element < node.after {
                if element > index + 1 { out.append(UInt8(ascii: ",")) }
                write(element, replacement)
                element = source[element].after
            }
            out.append(UInt8(ascii: "]"))
        } else {
            let value = JSONValue(storage: storage, index: index)
            let isAsked = value.kind == .string || value.kind == .number
            switch isAsked ? replacement(value, out.count) : nil {
            case nil: writeScalar(node)
            case .identifier: out.append(JSONValue.identifierMarker)
            case .value(let other):
                var writer = JSONWriter(capacity: 64)
                writer.replacement(other)
                out += writer.bytes
            }
        }
    }

    private mutating func writeScalar(_ node: JSONNode) {
        guard node.hasEscapes else {
            out += node.text(in: source.bytes)
            return
        }
        let content = node.content(in: source.bytes)
        let written = [UInt8](unsafeUninitializedCapacity: content.count) { buffer, count in
            count = csj_normalize_escapes(content.baseAddress, content.count, buffer.baseAddress)
        }
        out.append(UInt8(ascii: "\""))
        out += written
        out.append(UInt8(ascii: "\""))
    }
}

/// A value that replaces another value, such as a UUID.
public enum JSONReplacement: Sendable, Equatable {
    /// A string of 36 lower-case characters.
    case uuid(UUID)
    /// A string, escaped as JSON requires.
    case string(String)
    case integer(Int64)
    /// An integer outside the range of `Int64`: decimal digits, optionally after a minus sign.
    case digits(String)

    /// Compares strings by their bytes.
    public static func == (left: JSONReplacement, right: JSONReplacement) -> Bool {
        switch (left, right) {
        case (.uuid(let left), .uuid(let right)): left == right
        case (.string(let left), .string(let right)): left == right
        case (.integer(let left), .integer(let right)): left == right
        case (.digits(let left), .digits(let right)): left == right
        default: false
        }
    }
}
