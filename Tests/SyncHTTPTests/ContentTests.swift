import HTTPTypes
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("Accept and Content-Type")
struct ContentTests {
    @Test(
        "JSON is acceptable",
        arguments: [
            "application/json", "*/*", "application/*", "text/html, application/json;q=0.5", "text/*, */*;q=0.1",
            "APPLICATION/JSON", "application/json; charset=utf-8", "", " , ", "application/json;q=0.001",
        ]
    )
    func acceptable(accept: String) {
        #expect(Accept.allows("application/json", accept))
    }

    @Test(
        "JSON is not acceptable",
        arguments: [
            "text/html", "application/xml, text/*", "application/json;q=0", "application/json;q=0.000, */*",
            "application/*;q=0, */*;q=1", "application/problem+json",
        ]
    )
    func notAcceptable(accept: String) {
        #expect(!Accept.allows("application/json", accept))
    }

    @Test("No Accept accepts anything")
    func noAccept() {
        #expect(Accept.allows("application/json", [:] as HTTPFields))
    }

    @Test(
        "The body is JSON",
        arguments: [
            "application/json", "Application/JSON", "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
            "application/json;", "application/json; charset=latin1", "application/json; profile=\"a,b\"; odata=x",
        ]
    )
    func json(type: String) {
        #expect(MediaType.isJSON(type))
    }

    @Test(
        "The body is something else",
        arguments: [
            "", "text/json", "application/jsonx", "application/json, text/plain",
            "application/json; charset=utf-8, text/plain", "application/json; a=\"b\", text/plain",
            "; application/json", "application/x-www-form-urlencoded",
        ]
    )
    func notJSON(type: String) {
        #expect(!MediaType.isJSON(type))
    }

    @Test("Compressed bodies are refused")
    func compressed() {
        #expect(throws: Never.self) {
            try MediaType.requireJSON([.contentType: "application/json", .contentEncoding: "identity"])
        }
        #expect(throws: Problem.self) {
            try MediaType.requireJSON([.contentType: "application/json", .contentEncoding: "gzip"])
        }
        #expect(throws: Problem.self) { try MediaType.requireJSON([:]) }
    }
}
