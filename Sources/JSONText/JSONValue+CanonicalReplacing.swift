internal import CSimdJSON

/// A replacement for a value in the canonical form.
public enum CanonicalReplacement: Sendable, Equatable {
    /// The form of every UUID.
    case identifier
    /// Another value's canonical form.
    case value(JSONReplacement)
}

extension JSONValue {
    /// Appends the canonical form of this value with some parts replaced.
    ///
    /// See ``appendCanonical(to:identifiers:)``; the parts are strings and numbers. For comparisons: slower than the
    /// other, and also linear.
    ///
    /// - Parameter replacement: called for each string and number in the order of the form, with its place in `bytes`;
    ///   nil leaves it. No UUID becomes an identifier by itself.
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

    /// Recurses as deep as the text nests, which its limits bound.
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
