import Testing

@testable import SyncModel

/// The entity that an upstream's answer shows.
@Suite struct UpstreamEntityTests {
    private func found(kept: String? = nil, unkept: String? = nil, at pointer: String = "/data/id") -> UpstreamEntity? {
        let response = UpstreamResponse(
            status: 201,
            json: kept.map { Array($0.utf8) },
            unkeptJSON: unkept.map { Array($0.utf8) }
        )
        return UpstreamEntity(in: response, idPointer: pointer)
    }

    @Test func `the document is the object that the ID stands in`() throws {
        let entity = try #require(found(kept: #"{"data":{"id":501,"n":1}}"#))
        #expect(entity.id == ServerID(text: "501", isInteger: true))
        #expect(entity.document.map { String(decoding: $0, as: UTF8.self) } == #"{"id":501,"n":1}"#)
        #expect(found(kept: #"{"id":501}"#) == nil)
        #expect(found(kept: #"{"data":{"id":[]}}"#) == nil)
    }

    /// What PostgreSQL cannot hold is no document, and yet the id is there to be read.
    @Test(arguments: [#""note":"a\u0000b""#, #""note":"\ud800""#, #""t":1,"t":2"#])
    func `the ID is read from what cannot be kept`(_ member: String) throws {
        let entity = try #require(found(unkept: #"{"data":{"id":"x-1",\#(member)}}"#))
        #expect(entity.id == ServerID(text: "x-1", isInteger: false))
        #expect(entity.document == nil)
    }

    /// Nobody knows which of two is meant.
    @Test(arguments: [#"{"data":{"id":1,"id":2}}"#, #"{"data":{"id":1},"data":{"id":2}}"#])
    func `of two IDs none is taken`(_ body: String) {
        #expect(found(unkept: body) == nil)
    }

    @Test(arguments: [#"{"data":{"id":"a\u0000b"}}"#, #"{"data":{"id":"\ud800"}}"#])
    func `an ID that is no text is none`(_ body: String) {
        #expect(found(unkept: body) == nil)
    }
}
