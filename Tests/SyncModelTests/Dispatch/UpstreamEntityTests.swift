import Testing

@testable import SyncModel

/// The entity in an upstream's answer.
@Suite struct UpstreamEntityTests {
    private func found(kept: String? = nil, unkept: String? = nil, at pointer: String = "/data/id") -> UpstreamEntity? {
        let response = UpstreamResponse(
            status: 201,
            json: kept.map { Array($0.utf8) },
            unkeptJSON: unkept.map { Array($0.utf8) }
        )
        return UpstreamEntity(in: response, idPointer: pointer)
    }

    @Test func `the document is the object that contains the ID`() throws {
        let entity = try #require(found(kept: #"{"data":{"id":501,"n":1}}"#))
        #expect(entity.id == ServerID(text: "501", isInteger: true))
        #expect(entity.document.map { String(decoding: $0, as: UTF8.self) } == #"{"id":501,"n":1}"#)
        #expect(found(kept: #"{"id":501}"#) == nil)
        #expect(found(kept: #"{"data":{"id":[]}}"#) == nil)
    }

    /// A body that PostgreSQL cannot store is no document, but its id can be read.
    @Test(arguments: [#""note":"a\u0000b""#, #""note":"\ud800""#, #""t":1,"t":2"#])
    func `reads the ID from a body that cannot be stored`(_ member: String) throws {
        let entity = try #require(found(unkept: #"{"data":{"id":"x-1",\#(member)}}"#))
        #expect(entity.id == ServerID(text: "x-1", isInteger: false))
        #expect(entity.document == nil)
    }

    /// The intended id is ambiguous.
    @Test(arguments: [#"{"data":{"id":1,"id":2}}"#, #"{"data":{"id":1},"data":{"id":2}}"#])
    func `uses neither of two IDs`(_ body: String) {
        #expect(found(unkept: body) == nil)
    }

    @Test(arguments: [#"{"data":{"id":"a\u0000b"}}"#, #"{"data":{"id":"\ud800"}}"#])
    func `ignores an ID that is not text`(_ body: String) {
        #expect(found(unkept: body) == nil)
    }
}
