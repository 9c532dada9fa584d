import JSONText
import Testing

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

@Suite("Rewriting")
struct RewritingTests {
    let first = UUID()
    let second = UUID()

    @Test
    func `UUIDs are replaced at every depth, and every other byte stays`() throws {
        let root = try parse(
            " { \"\(first)\" : [ \"\(first)\" , { \"x\":\"\(second.lowercased)\" } ],\n\"n\" : 1.50e+07, \"u\":\"\\u0041\(first)\" } "
        ).root
        let new = UUID()
        let rewritten = root.rewritten { $0 == first ? .uuid(new) : .integer(-12) }
        #expect(
            rewritten.map { text($0) }
                == "{ \"\(first)\" : [ \"\(new.lowercased)\" , { \"x\":-12 } ],\n\"n\" : 1.50e+07, \"u\":\"\\u0041\(first)\" }"
        )
        #expect(
            try text(#require(root.value(at: "/\(first)/1")?.rewritten { _ in .string("a\"b") })) == #"{ "x":"a\"b" }"#
        )
    }

    @Test
    func `A value that is itself a UUID is replaced`() throws {
        let root = try parse(" \"\(first)\" ").root
        #expect(root.rewritten { _ in .integer(7) } == Array("7".utf8))
    }

    @Test
    func `Returns nil if nothing changes`() throws {
        let root = try parse("[\"\(first.lowercased)\",\"\(second)\",1]").root
        #expect(root.rewritten { _ in nil } == nil)
        #expect(root.rewritten { $0 == first ? .uuid($0) : nil } == nil)
        #expect(root.rewritten { $0 == second ? .uuid($0) : nil } != nil)
        #expect(try parse("[1,\"a\"]").root.rewritten { _ in .integer(1) } == nil)
    }

    @Test
    func `Rewriting agrees with replacing in a model, and a second time changes nothing`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var source = ModelSource(seed: seed)
        let mapping = Dictionary(
            uniqueKeysWithValues: ModelSource.uuids.prefix(3).enumerated().map { index, uuid in
                (uuid, [JSONReplacement.uuid(UUID()), .string("é\"\n"), .integer(.min)][index])
            }
        )
        for _ in 0..<400 {
            let model = source.value()
            let root = try parse(source.write(model)).root
            let bytes = root.rewritten { mapping[$0] }
            let result = try bytes.map { try JSONTree(parsing: $0).root } ?? root
            #expect(Model(result).lowercasingUUIDs == model.replacing(mapping), "seed \(seed)")
            #expect(result.rewritten { mapping[$0] } == nil, "seed \(seed)")
            #expect(root.rewrittenCount([]) { mapping[$0] } == bytes?.count ?? root.rawCount, "seed \(seed)")
        }
    }
}

extension Model {
    fileprivate func map(_ transform: (UUID) -> Model) -> Model {
        switch self {
        case .string(let string): UUID(parsing: string).map(transform) ?? self
        case .array(let elements): .array(elements.map { $0.map(transform) })
        case .object(let members): .object(members.map { ($0.name, $0.value.map(transform)) })
        default: self
        }
    }

    fileprivate var lowercasingUUIDs: Model { map { .string($0.lowercased) } }

    fileprivate func replacing(_ mapping: [UUID: JSONReplacement]) -> Model {
        map { uuid in
            switch mapping[uuid] {
            case .uuid(let new): .string(new.lowercased)
            case .string(let new): .string(new)
            case .integer(let new): .number("\(new)")
            case .digits(let new): .number(new)
            case nil: .string(uuid.lowercased)
            }
        }
    }
}
