import HTTPTypes
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("Routes, request ids and addresses")
struct RoutingTests {
    private let table: RouteTable = {
        var table = RouteTable()
        for (method, template) in [
            (.get, "/v1/things"), (.post, "/v1/things"), (.get, "/v1/things/{id}"),
            (.put, "/v1/things/{id}/parts/{part}"),
        ] as [(HTTPRequest.Method, String)] {
            table.add(method, template) { _ in Answer(.ok, json: Array("\"\(method.rawValue) \(template)\"".utf8)) }
        }
        return table
    }()

    private func route(_ method: HTTPRequest.Method, _ path: String) -> (String, [Substring])? {
        guard case .route(let route, let parameters) = table.match(method, path) else { return nil }
        return ("\(route.method.rawValue) \(route.meters.route)", parameters)
    }

    @Test
    func `finds the routes of paths`() throws {
        #expect(try #require(route(.get, "/v1/things")) == ("GET /v1/things", []))
        #expect(try #require(route(.post, "/v1/things")) == ("POST /v1/things", []))
        #expect(try #require(route(.get, "/v1/things/7")) == ("GET /v1/things/{id}", ["7"]))
        #expect(try #require(route(.put, "/v1/things/7/parts/x")) == ("PUT /v1/things/{id}/parts/{part}", ["7", "x"]))
    }

    @Test
    func `GET routes serve HEAD`() throws {
        #expect(try #require(route(.head, "/v1/things")).0 == "GET /v1/things")
    }

    @Test(arguments: ["", "/", "/v1", "/v1/things/", "/v1/things//parts/x", "/v1/things/7/parts", "/V1/things", "*"]
    )
    func `finds no route for other paths`(path: String) {
        guard case .nothing = table.match(.get, path) else {
            Issue.record("\(path) was found")
            return
        }
    }

    @Test
    func `answers other methods with the allowed ones`() {
        guard case .otherMethods(let allow) = table.match(.delete, "/v1/things") else {
            Issue.record("DELETE was found")
            return
        }
        #expect(allow == "GET, POST, HEAD")
        guard case .otherMethods("PUT") = table.match(.head, "/v1/things/7/parts/x") else {
            Issue.record("HEAD was found")
            return
        }
    }

    @Test(arguments: ["a", "A-1_b.c", String(repeating: "x", count: 128)])
    func `keeps valid request ids`(id: String) {
        #expect(RequestID.of([.xRequestID: id]) == id)
    }

    @Test(arguments: ["", "a b", "a,b", "é", "a\"", "<script>", String(repeating: "x", count: 129)]
    )
    func `replaces other request ids`(id: String) {
        let made = RequestID.of([.xRequestID: id])
        #expect(made != id)
        #expect(made.count == 36)
    }

    @Test(arguments: [
        ("127.0.0.1:8080", "127.0.0.1", 8080), ("[::1]:0", "::1", 0), ("localhost:65535", "localhost", 65_535),
    ]
    )
    func `reads valid addresses`(text: String, host: String, port: Int) throws {
        let address = try #require(ListenAddress(parsing: text))
        #expect(address == ListenAddress(host: host, port: port))
        #expect(address.description == text)
    }

    @Test(arguments: ["", "8080", ":8080", "localhost", "localhost:", "localhost:65536", "::1:80", "a:-1", "[]:1"]
    )
    func `rejects invalid addresses`(text: String) {
        #expect(ListenAddress(parsing: text) == nil)
    }
}
