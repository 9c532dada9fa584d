import Foundation
import JSONText

/// JSON is parsed, other texts are refused, and the parsed value equals the text.
enum JSONTarget {
    static func run(_ bytes: [UInt8]) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: bytes)
        } catch {
            expect((0...bytes.count).contains(error.offset), "the error is outside of the text: \(error)")
            expect(!ReferenceGrammar.accepts(bytes, maximumDepth: 512), "refused although it is JSON: \(error)")
            return
        }
        expect(ReferenceGrammar.accepts(bytes, maximumDepth: 512), "accepted although it is not JSON")
        let values = tree.root.everything
        expect(values.count <= tree.nodeCount, "more values than nodes")
        for value in values.prefix(200) { check(value) }
        checkDefects(tree)
        checkCanonical(tree.root)
    }

    /// Each value is at its offset, and parses alike on its own.
    private static func check(_ value: JSONValue) {
        guard value.rawCount <= 2_000 else { return }
        guard let alone = try? JSONTree(parsing: Array(value.raw)) else {
            return expect(false, "a part of a text is not JSON: \(show(value.raw))")
        }
        expect(alone.root.kind == value.kind, "a value has another kind on its own")
        expect(alone.root.uuids == value.uuids, "a value has other UUIDs on its own")
        expect(value.depth == alone.root.depth, "a value has another depth on its own")
        if let number = value.int64 {
            let text = String(decoding: value.raw, as: UTF8.self)
            if let plain = Int64(text) { expect(plain == number, "\(text) is parsed as \(number)") }
            if let double = Double(text) { expect(double == Double(number), "\(text) is parsed as \(number)") }
        } else if case .number = value.kind {
            expect(
                Int64(String(decoding: value.raw, as: UTF8.self)) == nil,
                "an integer is not parsed: \(show(value.raw))"
            )
        }
        guard let string = value.string, !value.hasDefects else { return }
        var writer = JSONWriter()
        writer.string(string)
        let again = try? JSONTree(parsing: writer.bytes).root.string
        expect(again.map { Array($0.utf8) } == Array(string.utf8), "a string is written as \(show(writer.bytes))")
        expect(value.uuid == UUID(parsing: string), "a UUID has two results")
    }

    /// Reports a name as a duplicate exactly if it is one.
    private static func checkDefects(_ tree: JSONTree) {
        let kinds = Set(tree.defects.map { "\($0.kind)" })
        expect(tree.root.hasDefects == !kinds.isEmpty, "defects: \(kinds)")
        if kinds.contains("loneSurrogate") { return }
        var hasDuplicates = false
        for members in tree.root.everything.compactMap(\.members) {
            var names: Set<[UInt8]> = []
            for (name, _) in members where !names.insert(Array(name.string.utf8)).inserted { hasDuplicates = true }
        }
        expect(kinds.contains("duplicateMember") == hasDuplicates, "duplicates: \(hasDuplicates), defects: \(kinds)")
    }

    /// The canonical form, with its UUIDs reinserted, has the same meaning and is canonical.
    private static func checkCanonical(_ root: JSONValue) {
        let (form, identifiers) = canonical(root)
        expect(form.count <= root.rawCount, "the canonical form is longer than the text")
        expect(identifiers.count == root.uuids.count, "UUIDs are missing from the canonical form")
        expect(Set(identifiers) == Set(root.uuids), "the canonical form has other UUIDs")
        var text: [UInt8] = []
        var rest = identifiers[...]
        for byte in form {
            guard byte == 0x01 else {
                text.append(byte)
                continue
            }
            text += "\"\(rest.popFirst()?.lowercased ?? "?")\"".utf8
        }
        expect(rest.isEmpty, "the canonical form has too few marks")
        guard let again = try? JSONTree(parsing: text) else {
            return expect(false, "the canonical form is not JSON: \(show(text))")
        }
        let second = canonical(again.root)
        expect(second.form == form && second.identifiers == identifiers, "the form of the form differs: \(show(form))")
        guard !root.hasDefects else { return }
        expect(again.root.exact == root.exact, "the canonical form has another meaning: \(show(form))")
    }

    private static func canonical(_ value: JSONValue) -> (form: [UInt8], identifiers: [UUID]) {
        var form: [UInt8] = []
        var identifiers: [UUID] = []
        value.appendCanonical(to: &form, identifiers: &identifiers)
        return (form, identifiers)
    }
}
