import JSONText
import Testing

@Suite("Random texts")
struct RandomTextTests {
    @Test
    func `A parsed value equals the written one`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var source = ModelSource(seed: seed)
        for _ in 0..<400 {
            let model = source.value()
            let tree = try parse(source.write(model))
            #expect(tree.defects.allSatisfy { $0.kind == .nulCharacter }, "seed \(seed)")
            #expect(Model(tree.root).foldingUUIDs == model.foldingUUIDs, "seed \(seed)")
        }
    }

    @Test
    func `A damaged text is refused within its length, or valid as a whole`() throws {
        let seed: UInt64 = 7_396
        var source = ModelSource(seed: seed)
        let scraps = ["{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "1", "-", ".", "e", "t", " ", "\u{0}"]
        for _ in 0..<3_000 {
            var bytes = Array(source.write(source.value()).utf8)
            for _ in 0..<Int.random(in: 1...3, using: &source.random) {
                let place = Int.random(in: 0...bytes.count, using: &source.random)
                bytes.insert(contentsOf: Array(source.pick(scraps).utf8), at: place)
                bytes.remove(at: Int.random(in: bytes.indices, using: &source.random))
            }
            do {
                let tree = try JSONTree(parsing: bytes)
                var form: [UInt8] = []
                var identifiers: [_] = tree.root.uuids
                identifiers.removeAll()
                tree.root.appendCanonical(to: &form, identifiers: &identifiers)
                #expect(identifiers.count == tree.root.uuids.count)
                #expect(form.count <= bytes.count)
                _ = (tree.defects, Model(tree.root))
            } catch {
                #expect((0...bytes.count).contains(error.offset))
            }
        }
    }
}

extension Model {
    /// The source writes UUIDs in upper and lower case.
    var foldingUUIDs: Model {
        switch self {
        case .string(let string) where string.utf8.count == 36: .string(string.lowercased())
        case .array(let elements): .array(elements.map(\.foldingUUIDs))
        case .object(let members): .object(members.map { ($0.name, $0.value.foldingUUIDs) })
        default: self
        }
    }
}
