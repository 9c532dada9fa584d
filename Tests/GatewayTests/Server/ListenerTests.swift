import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import Testing

/// The routes that each listener serves, for every way to write a request.
@Suite struct ListenerTests {
    /// Spellings of a path that a proxy or a program might treat as that path.
    private static func disguises(of path: String, host: String) -> [String] {
        let rest = String(path.dropFirst())
        let first = rest.prefix(1)
        let escaped = "/%" + String(first.utf8.first ?? 0, radix: 16) + rest.dropFirst()
        return [
            path, "/" + path, "//" + path, "/." + path, "/./" + rest, "/x/.." + path, "/v1/.." + path,
            "/v1/%2e%2e" + path, "/v1/..%2f" + rest, "/v1;/.." + path, escaped, "/%2f" + rest, path + "/", path + "%20",
            path + ";x=1", path + "?x=1", path + "#x", path.uppercased(), path + "%00", path + "/.", "\\" + rest,
            "http://\(host)" + path, "http://elsewhere.test" + path, "https://user@\(host)" + path,
            "HTTP://\(host)/" + path,
        ]
    }

    private static func heads(_ paths: [String], method: String, tokens: [String?]) -> [String] {
        let hosts = ["Host: test", "Host: 127.0.0.1:8081", "Host: localhost\r\nX-Forwarded-Host: operations"]
        let rewrites = ["X-Original-URL", "X-Rewrite-URL"].map { "Host: test\r\n\($0): /admin/organizations" }
        var heads: [String] = []
        for path in paths {
            for token in tokens {
                let authorization = token.map { "Authorization: Bearer \($0)\r\n" } ?? ""
                for fields in path == paths[0] ? hosts + rewrites : [hosts[0]] {
                    let end = "\(authorization)Content-Length: 0\r\nConnection: close\r\n\r\n"
                    heads.append("\(method) \(path) HTTP/1.1\r\n\(fields)\r\n\(end)")
                }
            }
        }
        return heads
    }

    /// Expects that the listener serves none of the requests, and that nothing changes.
    private static func expectNothing(_ fixture: TwoTenantFixture, at port: Int, _ heads: [String]) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for part in stride(from: 0, to: heads.count, by: 100).map({ heads[$0..<min($0 + 100, heads.count)] }) {
                for head in part {
                    group.addTask {
                        let connection = try RawConnection(port: port)
                        await connection.send(head)
                        let reply = try await connection.reply()
                        #expect([400, 404].contains(reply.status), "\(head): \(reply.text)")
                        expectProblem(reply, reply.status == 400 ? .invalidRequest : .notFound, errors: [])
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test func `the public listener serves no operations route for any spelling`() async throws {
        let fixture = try await TwoTenantFixture()
        let before = try await fixture.tables()
        let tokens = [nil, LiveGateway.operatorToken, fixture.ada.token]
        var heads: [String] = []
        for route in try Contract().routes(ofOperations: true).sorted() {
            let words = route.split(separator: " ").map(String.init)
            let path = words[1].replacing("{id}", with: fixture.ada.organization.lowercased)
                .replacing("{user}", with: fixture.ada.user.lowercased).replacing("{name}", with: "task")
            let isSimple = words[0] == "GET" && !path.dropFirst(20).contains("/")
            let paths = isSimple ? Self.disguises(of: path, host: "127.0.0.1:8081") : [path]
            heads += Self.heads(paths, method: words[0], tokens: tokens)
        }
        #expect(heads.count > 200)
        try await Self.expectNothing(fixture, at: fixture.gateway.port, heads)
        #expect(try await fixture.tables() == before)
    }

    @Test func `the operations listener serves no public route`() async throws {
        let fixture = try await TwoTenantFixture()
        let before = try await fixture.tables()
        let port = try #require(URL(string: fixture.gateway.operations)?.port)
        var heads: [String] = []
        for route in try Contract().routes(ofOperations: false).sorted() {
            let words = route.split(separator: " ").map(String.init)
            let path = words[1].replacing("{id}", with: UUID().lowercased)
                .replacing("{device_id}", with: UUID().lowercased)
            let paths = path == "/v1/mutations" ? Self.disguises(of: path, host: "127.0.0.1:8080") : [path]
            heads += Self.heads(paths, method: words[0], tokens: [fixture.ada.token, LiveGateway.operatorToken])
        }
        try await Self.expectNothing(fixture, at: port, heads)
        #expect(try await fixture.tables() == before)
    }
}
