import Foundation
import JSONText
import SyncModel

/// JSON batches of OData 4.01, and a GraphQL API over the same documents.
extension DemoCollections {
    /// The contact name that the GraphQL API refuses, with the status 200.
    static let refused: StaticString = "refuse"
    private static let batchPath = "/$batch"
    private static let graphQLPath = "/graphql"
    private static let maximumParts = 100

    /// Responds to a batch, to a request of the GraphQL API and to a request for the API's description; nil for any
    /// other request.
    mutating func answerOfEndpoint(_ request: DemoRequest) -> DemoAnswer? {
        if request.method == "GET", request.path == DemoContract.path[...] {
            return DemoAnswer(status: 200, body: DemoContract.json)
        }
        guard request.method == "POST" else { return nil }
        switch request.path {
        case Self.batchPath[...]: return batch(request)
        case Self.graphQLPath[...]: return graphQL(request)
        default: return nil
        }
    }

    private mutating func batch(_ request: DemoRequest) -> DemoAnswer {
        let root = (try? JSONTree(parsing: request.body))?.root
        guard let parts = root?.value(at: "/requests")?.elements.map({ Array($0) }) else {
            return error(400, "a batch has requests")
        }
        guard parts.count <= Self.maximumParts else { return error(413, "a batch has at most 100 requests") }
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("responses")
        writer.beginArray()
        for part in parts {
            let answer = answer(Self.request(part, of: request.user))
            writer.object { writer in
                writer.member("id", part.value(at: "/id")?.string)
                writer.member("status", answer.status)
                writer.member("headers") { writer in
                    if let etag = answer.etag { writer.member("ETag", etag) }
                    if let location = answer.location { writer.member("Location", location) }
                }
                if let body = answer.body { writer.member("body", raw: body) }
            }
        }
        writer.endArray()
        writer.endObject()
        return DemoAnswer(status: 200, body: writer.bytes, remark: "\(parts.count) requests")
    }

    private static func request(_ part: JSONValue, of user: UUID?) -> DemoRequest {
        var headers: [ByteExactString: String] = [:]
        part.value(at: "/headers")?.members?.forEach { name, value in
            headers[ByteExactString(name.string.lowercased())] = value.string
        }
        return DemoRequest(
            method: part.value(at: "/method")?.string?.uppercased() ?? "",
            target: part.value(at: "/url")?.string ?? "",
            idempotencyKey: headers["idempotency-key"],
            ifMatch: headers["if-match"],
            user: user,
            body: part.value(at: "/body").map { Array($0.raw) } ?? []
        )
    }

    /// Creates a contact from `variables.input`. A refusal is a 200 with `errors`, as in GraphQL.
    private mutating func graphQL(_ request: DemoRequest) -> DemoAnswer {
        let root = (try? JSONTree(parsing: request.body))?.root
        guard let input = root?.value(at: "/variables/input"), input.kind == .object else {
            return error(400, "the GraphQL API supports a mutation with variables.input")
        }
        if input.value(at: "/name")?.stringEquals(Self.refused) == true {
            let body = #"{"data":{"create":null},"errors":[{"message":"this name is not allowed"}]}"#
            return DemoAnswer(status: 200, body: Array(body.utf8), remark: "refused")
        }
        var create = request
        (create.target, create.body) = ("/contacts", Array(input.raw))
        let made = answer(create)
        guard made.status == 201, let document = made.body else { return made }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("data") { $0.member("create", raw: document) }
        }
        return DemoAnswer(status: 200, body: writer.bytes, remark: made.remark)
    }

    private func error(_ status: Int, _ reason: String) -> DemoAnswer {
        var writer = JSONWriter()
        writer.object { $0.member("error", reason) }
        return DemoAnswer(status: status, body: writer.bytes, remark: reason)
    }
}
