import HTTPTypes
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("Accept and Content-Type")
struct ContentTests {
    @Test(arguments: [
        "application/json", "*/*", "application/*", "text/html, application/json;q=0.5", "text/*, */*;q=0.1",
        "APPLICATION/JSON", "application/json; charset=utf-8", "", " , ", "application/json;q=0.001",
    ]
    )
    func `accepts headers that allow JSON`(accept: String) {
        #expect(Accept.allows("application/json", accept))
    }

    @Test(arguments: [
        "text/html", "application/xml, text/*", "application/json;q=0", "application/json;q=0.000, */*",
        "application/*;q=0, */*;q=1", "application/problem+json",
    ]
    )
    func `rejects headers that exclude JSON`(accept: String) {
        #expect(!Accept.allows("application/json", accept))
    }

    @Test
    func `a missing Accept header allows JSON`() {
        #expect(Accept.allows("application/json", [:] as HTTPFields))
    }

    @Test(arguments: [
        "application/json", "Application/JSON", "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "application/json;", "application/json; charset=latin1", "application/json; profile=\"a,b\"; odata=x",
    ]
    )
    func `recognizes JSON media types`(type: String) {
        #expect(MediaType.isJSON(type))
    }

    @Test(arguments: [
        "", "text/json", "application/jsonx", "application/json, text/plain",
        "application/json; charset=utf-8, text/plain", "application/json; a=\"b\", text/plain",
        "; application/json", "application/x-www-form-urlencoded",
    ]
    )
    func `rejects other media types`(type: String) {
        #expect(!MediaType.isJSON(type))
    }

    @Test
    func `rejects compressed bodies`() {
        #expect(throws: Never.self) {
            try MediaType.requireJSON([.contentType: "application/json", .contentEncoding: "identity"])
        }
        #expect(throws: Problem.self) {
            try MediaType.requireJSON([.contentType: "application/json", .contentEncoding: "gzip"])
        }
        #expect(throws: Problem.self) { try MediaType.requireJSON([:]) }
    }
}
