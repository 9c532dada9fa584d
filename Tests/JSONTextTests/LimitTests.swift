import JSONText
import Testing

@Suite("Limits")
struct LimitTests {
    private func nested(_ depth: Int) -> String {
        String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }

    @Test
    func `Nesting is parsed to the limit and refused beyond it`() throws {
        #expect(try parse(nested(512)).root.depth == 512)
        #expect(fault(nested(513)) == .init(kind: .tooDeep, offset: 512))
        #expect(fault("{\"a\":[{}]}", limits: .init(maximumDepth: 2)) == .init(kind: .tooDeep, offset: 6))
        #expect(try parse(nested(1_024), limits: .widest).root.depth == 1_024)
        #expect(fault(nested(1_025), limits: .widest)?.kind == .tooDeep)
        #expect(fault("[]", limits: .init(maximumDepth: -1))?.kind == .tooDeep)
    }

    @Test
    func `The deepest texts are walked, merged and made canonical`() throws {
        let levels = 1_024
        let deep = String(repeating: "{\"a\":", count: levels) + "1" + String(repeating: "}", count: levels)
        let tree = try parse(deep, limits: .widest)
        var form: [UInt8] = []
        var identifiers = tree.root.uuids
        tree.root.appendCanonical(to: &form, identifiers: &identifiers)
        #expect(form == tree.bytes)
        #expect(try JSONValue.mergePatch(target: tree.bytes, patch: tree.root) == tree.bytes)
        #expect(try JSONValue.mergePatch(target: nil, patch: tree.root) == tree.bytes)
        let defective = deep.replacing("1", with: "\"\\u0000\"")
        #expect(try parse(defective, limits: .widest).defects.map(\.kind) == [.nulCharacter])
    }

    @Test
    func `A million open brackets are refused at the first one beyond the limit`() {
        #expect(fault([UInt8](repeating: UInt8(ascii: "["), count: 1_000_000)) == .init(kind: .tooDeep, offset: 512))
        #expect(fault(String(repeating: "{\"a\":", count: 200_000))?.kind == .tooDeep)
    }

    @Test
    func `Length is bounded`() {
        #expect(fault("[1]", limits: .init(maximumBytes: 3)) == nil)
        #expect(fault("[1] ", limits: .init(maximumBytes: 3)) == .init(kind: .tooLong, offset: 3))
    }

    @Test
    func `Values and names are counted together`() throws {
        #expect(try parse("{\"a\":[1,2]}").nodeCount == 5)
        #expect(fault("{\"a\":[1,2]}", limits: .init(maximumNodes: 5)) == nil)
        #expect(fault("{\"a\":[1,2]}", limits: .init(maximumNodes: 4)) == .init(kind: .tooManyNodes, offset: 8))
    }

    @Test
    func `Four mebibytes of small arrays are parsed if the limit allows, and refused otherwise`() throws {
        let many = "[" + String(repeating: "[],", count: 1_398_000) + "[]]"
        #expect(try parse(many, limits: .widest).nodeCount == 1_398_002)
        #expect(fault(many)?.kind == .tooManyNodes)
    }
}
