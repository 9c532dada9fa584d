import JSONText

/// A merge patch has the result of RFC 7396's pseudocode. The input is a document and a patch, with a zero byte between
/// them.
enum MergeTarget {
    static func run(_ bytes: [UInt8]) {
        guard let (target, text) = halves(bytes), let patch = try? JSONTree(parsing: text) else { return }
        let document = try? JSONTree(parsing: target)
        for given in [nil, target] {
            let result: [UInt8]
            do throws(JSONParseError) {
                result = try JSONValue.mergePatch(target: given, patch: patch.root)
            } catch {
                expect(given != nil && document == nil, "refused although both are JSON: \(error)")
                continue
            }
            guard let merged = try? JSONTree(parsing: result, limits: .widest) else {
                return expect(false, "the result is not JSON: \(show(result))")
            }
            let before = given == nil ? nil : document
            if patch.root.hasDefects || before?.root.hasDefects == true { continue }
            expect(result.count <= target.count + text.count + patch.nodeCount, "the result is longer than both")
            let model = Model.mergePatch(before?.root.exact, patch.root.exact)
            expect(merged.root.exact == model, "wrong: \(show(result))")
            let limited = try? JSONValue.mergePatch(target: given, patch: patch.root, maximumBytes: result.count - 1)
            expect(limited == nil, "the limit does not hold")
        }
    }
}
