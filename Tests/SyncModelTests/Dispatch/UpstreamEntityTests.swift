import JSONText
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

    private func document(_ json: String, at place: String, id pointer: String = "/id", named: String? = nil) -> String
    {
        let entity = UpstreamEntity(
            in: UpstreamResponse(status: 409, json: Array(json.utf8)),
            document: place,
            idPointer: pointer,
            named: named.map { ServerID(text: $0, isInteger: true) }
        )
        let document = entity?.document.map { String(decoding: $0, as: UTF8.self) }
        return "\(entity?.id.text ?? "-") \(document ?? "-")"
    }

    @Test func `the id of a conflict's document is in the document, the answer, or the path, in this order`() {
        let two = #"{"id":1,"current":{"id":2}}"#
        #expect(document(#"{"current":{"id":1}}"#, at: "/current") == #"1 {"id":1}"#)
        #expect(document(two, at: "/current", named: "1") == #"2 {"id":2}"#)
        #expect(document(two, at: "/current", id: "/current/id") == #"2 {"id":2}"#)
        #expect(document(#"{"current":{"data":{"id":3}}}"#, at: "/current", id: "/data/id") == #"3 {"data":{"id":3}}"#)
        #expect(document(#"{"current":{"id":3}}"#, at: "/current", id: "/data/id") == #"3 {"id":3}"#)
        #expect(document(#"{"id":1,"current":{"n":1}}"#, at: "/current", named: "2") == #"1 {"n":1}"#)
        #expect(document(#"{"current":{"n":1}}"#, at: "/current", named: "2") == #"2 {"n":1}"#)
        #expect(document(#"{"n":1}"#, at: "", named: "2") == #"2 {"n":1}"#)
        #expect(document(#"{"current":{"n":1}}"#, at: "/current") == "- -")
        #expect(document(#"{"current":{"id":null}}"#, at: "/current", named: "2") == "- -")
        #expect(document(#"{"current":"x"}"#, at: "/current", named: "2") == "- -")
    }

    @Test func `a document with another id is not the entity's`() throws {
        func found(_ json: String, _ idPointer: String = "/id") -> UpstreamEntity? {
            UpstreamEntity(
                in: UpstreamResponse(status: 200, json: Array(json.utf8)),
                idPointer: idPointer,
                documentPointer: "/data"
            )
        }
        let other = try #require(found(#"{"id":1,"data":{"id":2}}"#))
        #expect(other.id.text == "1" && other.document == nil)
        #expect(found(#"{"id":1,"data":{"id":"1"}}"#)?.document != nil)
        #expect(found(#"{"id":1,"data":{"n":1}}"#)?.document != nil)
        #expect(found(#"{"data":{"id":2}}"#, "/data/id")?.document != nil)
    }

    @Test(arguments: [ConflictResolution.manual, .serverWins, .clientWins])
    func `a conflict shows the document only if it is the mutation's entity`(_ strategy: ConflictResolution) throws {
        var sample = Sample.of(.update, strategy)
        let rules = #"[{"status":409,"then":"conflict","document":"/current"}]"#
        sample.upstream?.outcomes = OutcomeRules(stored: try JSONTree(parsing: Array(rules.utf8)).root)
        let own = try #require(sample.outcome(409, #"{"current":{"id":7,"name":"Ada"}}"#))
        #expect(own.current == #"{"id":7,"name":"Ada"}"#)
        let other = try #require(sample.outcome(409, #"{"id":7,"current":{"id":8,"name":"Eve"}}"#))
        #expect(other.current == nil && other.document == nil)
        let unnamed = try #require(sample.outcome(409, #"{"current":{"name":"Ada"}}"#))
        #expect(unnamed.current == #"{"name":"Ada"}"#)
    }

    @Test(arguments: [#"{"data":{"id":"a\u0000b"}}"#, #"{"data":{"id":"\ud800"}}"#])
    func `ignores an ID that is not text`(_ body: String) {
        #expect(found(unkept: body) == nil)
    }
}
