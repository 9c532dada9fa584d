import JSONText
import Testing

@Suite struct FoldTests {
    private func fold(_ document: String) throws -> JSONFold { try #require(JSONFold(Array(document.utf8))) }

    private func merge(
        _ fold: inout JSONFold,
        _ patch: String,
        isShallow: Bool = false,
        limit: Int = 1_000_000
    ) throws -> JSONFold.Effect {
        fold.merge(try parse(patch).root, isShallow: isShallow, maximumBytes: limit, isSame: ==)
    }

    @Test func `patches change the members that they name`() throws {
        var fold = try fold(#"{"a":1, "b":{"x":[1],"y":2} ,"c":"z"}"#)
        #expect(try merge(&fold, #"{"b":{"x":null,"n":{"deep":1,"no":null}},"d":5}"#) == .changed)
        #expect(try merge(&fold, #"{"b":{"n":{"deep":2}},"c":null,"e":null}"#) == .changed)
        #expect(text(fold.text) == #"{"a":1, "b":{"y":2,"n":{"deep":2}} ,"d":5}"#)
        #expect(fold.count == fold.text.count)
        #expect(try merge(&fold, #"{"a":1,"b":{"n":{}},"zz":null}"#) == .unchanged)
        #expect(try merge(&fold, #"{"a":{"q":null}}"#) == .changed)
        #expect(text(fold.text) == #"{"a":{}, "b":{"y":2,"n":{"deep":2}} ,"d":5}"#)
    }

    @Test func `a shallow patch replaces members as a whole, and null is a value`() throws {
        var fold = try fold(#"{"a":{"x":1},"b":2}"#)
        #expect(try merge(&fold, #"{"a":{"y":null},"c":null}"#, isShallow: true) == .changed)
        #expect(text(fold.text) == #"{"a":{"y":null},"b":2,"c":null}"#)
        #expect(try merge(&fold, #"{"a":{"y":null}}"#, isShallow: true) == .unchanged)
    }

    @Test func `a patch that makes the document too long changes nothing`() throws {
        var fold = try fold(#"{"a":"1234567890"}"#)
        #expect(try merge(&fold, #"{"b":1}"#, limit: 20) == .tooLong)
        #expect(text(fold.text) == #"{"a":"1234567890"}"#)
        #expect(try merge(&fold, #"{"a":null,"b":1234}"#, limit: 20) == .changed)
        #expect(text(fold.text) == #"{"b":1234}"#)
    }

    @Test(arguments: [#"{"a":1,"a":2}"#, "[]", "1", ""])
    func `only objects with unique names can be folded`(_ document: String) {
        #expect(JSONFold(Array(document.utf8)) == nil)
    }

    @Test func `a patch with a duplicate name is unsupported`() throws {
        var fold = try fold(#"{"a":1,"b":{"c":1}}"#)
        #expect(try merge(&fold, #"{"a":1,"a":2}"#) == .unsupported)
        #expect(try merge(&fold, #"{"b":{"c":1,"c":2}}"#) == .unsupported)
        #expect(text(fold.text) == #"{"a":1,"b":{"c":1}}"#)
    }

    /// The same value as patches in sequence, and the computed length.
    @Test(arguments: 0..<200)
    func `folded patches have the same result as patches in sequence`(_ seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        func value(_ depth: Int) -> String {
            switch Int.random(in: 0..<(depth > 0 ? 8 : 5), using: &random) {
            case 0: "null"
            case 1: "\(Int.random(in: 0..<3, using: &random))"
            case 2: #""\#(["", "x", "a longer text"].randomElement(using: &random)!)""#
            case 3: "true"
            case 4: "[1, {\"a\": null}]"
            default: object(depth - 1)
            }
        }
        func object(_ depth: Int) -> String {
            let names = ["a", "b", #"\u0063"#, "d", "é"].shuffled(using: &random)
            let members = names.prefix(Int.random(in: 0...5, using: &random)).map { #" "\#($0)" : \#(value(depth)) "# }
            return "{" + members.joined(separator: ",") + " }"
        }
        var document = Array(object(3).utf8)
        var fold = try #require(JSONFold(document))
        for _ in 0..<12 {
            let patch = try parse(object(3)).root
            let before = Model(try parse(text(document)).root)
            document = try JSONValue.mergePatch(target: document, patch: patch)
            let effect = fold.merge(patch, maximumBytes: 100_000, isSame: ==)
            let model = Model(try parse(text(document)).root)
            #expect(effect == .changed || effect == .unchanged && before == model, "seed \(seed)")
            #expect(Model(try parse(text(fold.text)).root) == model, "seed \(seed): \(text(fold.text))")
            #expect(fold.count == fold.text.count, "seed \(seed)")
        }
    }
}
