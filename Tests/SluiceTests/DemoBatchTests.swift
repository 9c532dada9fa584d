import Foundation
import JSONText
import Testing

@testable import DemoUpstream

@Suite struct DemoBatchTests {
    private static func post(_ target: String, _ body: String, key: String? = nil) -> DemoRequest {
        DemoRequest(method: "POST", target: target, idempotencyKey: key, body: Array(body.utf8))
    }

    private static func json(_ answer: DemoAnswer?) throws -> JSONValue {
        try JSONTree(parsing: answer?.body ?? []).root
    }

    @Test func `each request of a batch has its response, and is applied once`() throws {
        var collections = DemoCollections()
        let batch = Self.post(
            "/$batch",
            #"""
            {"requests":[
             {"id":"1","method":"POST","url":"/contacts","headers":{"idempotency-key":"a"},"body":{"name":"Ola"}},
             {"id":"2","method":"PATCH","url":"/contacts/9","headers":{"idempotency-key":"b"},"body":{"name":"Kari"}}]}
            """#
        )
        for _ in 0..<2 {
            let root = try Self.json(collections.answerOfEndpoint(batch))
            #expect(root.value(at: "/responses/0/id")?.string == "1")
            #expect(root.value(at: "/responses/0/status")?.int64 == 201)
            #expect(root.value(at: "/responses/0/headers/Location")?.string == "/contacts/1")
            #expect(root.value(at: "/responses/0/body/id")?.int64 == 1)
            #expect(root.value(at: "/responses/1/status")?.int64 == 404)
        }
        #expect(collections.answerOfEndpoint(Self.post("/$batch", "{}"))?.status == 400)
        let many = (0...100).map { #"{"id":"\#($0)","method":"GET","url":"/contacts"}"# }.joined(separator: ",")
        #expect(collections.answerOfEndpoint(Self.post("/$batch", #"{"requests":[\#(many)]}"#))?.status == 413)
    }

    @Test func `the GraphQL API refuses a document with the status 200`() throws {
        var collections = DemoCollections()
        let made = collections.answerOfEndpoint(Self.post("/graphql", #"{"variables":{"input":{"name":"Ola"}}}"#))
        #expect(made?.status == 200)
        #expect(try Self.json(made).value(at: "/data/create/id")?.int64 == 1)
        let refused = collections.answerOfEndpoint(Self.post("/graphql", #"{"variables":{"input":{"name":"refuse"}}}"#))
        #expect(refused?.status == 200)
        #expect(try Self.json(refused).value(at: "/errors/0/message")?.string == "this name is not allowed")
        #expect(collections.answerOfEndpoint(Self.post("/contacts", "{}")) == nil)
    }
}
