import JSONText
import Testing

@Suite("Merge patch")
struct MergePatchTests {
    private func merged(_ target: String?, _ patch: String) throws -> String {
        try text(JSONValue.mergePatch(target: target.map { Array($0.utf8) }, patch: parse(patch).root))
    }

    @Test(arguments: [
        (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
        (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
        (#"{"a":"b"}"#, #"{"a":null}"#, #"{}"#),
        (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
        (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
        (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
        (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
        (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#),
        (#"["a","b"]"#, #"["c","d"]"#, #"["c","d"]"#),
        (#"{"a":"b"}"#, #"["c"]"#, #"["c"]"#),
        (#"{"a":"foo"}"#, #"null"#, #"null"#),
        (#"{"a":"foo"}"#, #""bar""#, #""bar""#),
        (#"{"e":null}"#, #"{"a":1}"#, #"{"e":null,"a":1}"#),
        (#"[1,2]"#, #"{"a":"b","c":null}"#, #"{"a":"b"}"#),
        (#"{}"#, #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
    ]
    )
    func `The examples of RFC 7396, appendix A`(_ target: String, _ patch: String, _ expected: String) throws {
        #expect(try merged(target, patch) == expected)
    }

    /// The example of RFC 7396, section 3.
    @Test
    func `The example of the RFC's text`() throws {
        let target =
            #"{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},"tags":["example","sample"],"content":"This will be unchanged"}"#
        let patch =
            #"{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}"#
        #expect(
            try merged(target, patch)
                == #"{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],"content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}"#
        )
    }

    @Test
    func `Members that the patch does not name keep their text`() throws {
        let target = "{ \"a\" : 1.50 ,\n \"\\u0062\" : { \"x\": 1e+07 , \"y\":[ 1 ] } , \"c\":\"\\u00e9\" }"
        #expect(try merged(target, "{}") == target)
        #expect(try merged(target, #"{"b":{"x":2}}"#) == target.replacing("1e+07", with: "2"))
        #expect(
            try merged(target, #"{"c":null}"#) == "{ \"a\" : 1.50 ,\n \"\\u0062\" : { \"x\": 1e+07 , \"y\":[ 1 ] }  }"
        )
        #expect(try merged("{ }", "{}") == "{ }")
        #expect(try merged(" {\"a\":1} ", #"{"a":2}"#) == "{\"a\":2}")
    }

    @Test
    func `New members follow in the patch's order, in its text, without its nulls`() throws {
        #expect(
            try merged(#"{"m":0}"#, #"{"z":1.0,"b":null,"a":{ "x":null , "y":[null] }}"#)
                == #"{"m":0,"z":1.0,"a":{ "y":[null] }}"#
        )
        #expect(try merged(nil, #"{"a":{"b":null,"c":1},"d":null}"#) == #"{"a":{"c":1}}"#)
        #expect(try merged("3", #"{"a":1}"#) == #"{"a":1}"#)
        #expect(try merged(#"{"a":1}"#, #"{"\u0061":2}"#) == #"{"a":2}"#)
    }

    @Test
    func `A part of a tree can be the patch`() throws {
        let body = try parse(#"{"payload":{"a":{"b":2},"n":null}}"#)
        let patch = try #require(body.root["payload"])
        #expect(
            try text(JSONValue.mergePatch(target: Array(#"{"a":{"c":1},"n":5}"#.utf8), patch: patch))
                == #"{"a":{"c":1,"b":2}}"#
        )
    }

    @Test
    func `A target that is not JSON and a result that is too long are errors`() throws {
        let patch = try parse(#"{"a":1}"#).root
        #expect(throws: JSONParseError(kind: .unexpectedEnd, offset: 1)) {
            try JSONValue.mergePatch(target: Array("{".utf8), patch: patch)
        }
        #expect(throws: JSONParseError(kind: .tooLong, offset: 6)) {
            try JSONValue.mergePatch(target: nil, patch: patch, maximumBytes: 6)
        }
    }

    @Test
    func `Merging agrees with the RFC's pseudocode`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var source = ModelSource(seed: seed)
        for _ in 0..<400 {
            let target = source.object()
            let patch = source.value()
            let result = try parse(merged(source.write(target), source.write(patch)))
            #expect(Model(result.root).foldingUUIDs == Model.mergePatch(target, patch).foldingUUIDs, "seed \(seed)")
        }
    }
}
