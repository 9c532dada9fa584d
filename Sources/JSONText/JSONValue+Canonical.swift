internal import CSimdJSON
public import FoundationEssentials

extension JSONValue {
    /// Represents a UUID in the canonical form: no JSON text has this byte.
    public static let identifierMarker: UInt8 = 0x01

    /// Appends a form in which values with the same meaning are the same bytes.
    ///
    /// It is for fingerprints.
    ///
    /// Members come in the order of their unescaped names' bytes, white space is removed, strings are escaped in one
    /// minimal way, numbers stay as written. Every UUID-shaped string value becomes ``identifierMarker``, and the UUID
    /// is appended to `identifiers`, in the order of this form. Takes time linear in the value, but for sorting
    /// members; appends at most ``rawCount`` bytes.
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

/// Writes the canonical form. No part of it is longer than its source.
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

    /// Recurses as deep as the text nests, which its limits bound.
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
