import Foundation
import GatewaySupport
import JSONText
import NIOCore
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

@testable import OperatorsFeature
@testable import SyncHTTP

/// The console's files, as the operations listener serves them.
@Suite struct ConsoleFilesTests {
    /// The maximum size of all files together.
    private static let limit = 163_840
    private static let policy =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

    @Test func `every file is embedded and their total size is limited`() throws {
        let folder = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../../Sources/CConsole/assets").standardized
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        let files = ConsoleEndpoint().files
        #expect(files.keys.sorted() == names)
        var total = 0
        for (name, file) in files {
            let bytes = try Data(contentsOf: folder.appending(path: name))
            #expect(Data(file.content.readableBytesView) == bytes, "\(name)")
            #expect(file.type != "application/octet-stream", "\(name) has no type")
            total += bytes.count
        }
        #expect(total <= Self.limit, "the console has \(total) bytes")
    }

    @Test func `the console's page is served at all of its paths`() async throws {
        let gateway = try await LiveGateway.start()
        let index = try await send(.GET, gateway.operations + "/console")
        for path in ["/console", "/console/", "/console/organizations/\(UUID().lowercased)", "/console/a/b/c?d=e"] {
            let reply = try await send(.GET, gateway.operations + path, headers: [("Accept", "text/html")])
            #expect(reply.status == 200 && reply.body == index.body, "\(path)")
            #expect(reply.header("content-type") == ["text/html; charset=utf-8"])
            #expect(reply.header("content-security-policy") == [Self.policy])
            #expect(reply.header("x-content-type-options") == ["nosniff"])
            #expect(reply.header("referrer-policy") == ["no-referrer"])
            #expect(reply.header("cross-origin-opener-policy") == ["same-origin"])
            // the browser's Back button revalidates as well
            #expect(reply.header("cache-control") == ["no-store"])
        }
        for path in ["/console/nothing.js", "/console/../admin/me.js", "/console/a/index.html", "/consoles", "/consol"]
        {
            #expect(try await send(.GET, gateway.operations + path).status == 404, "\(path)")
        }
        #expect(try await send(.GET, gateway.address + "/console").status == 404)
    }

    @Test func `a browser revalidates and downloads only changed files`() async throws {
        let gateway = try await LiveGateway.start()
        let url = gateway.operations + "/console/app.js"
        let first = try await send(.GET, url)
        let tag = try #require(first.header("etag").first)
        let again = try await send(.GET, url, headers: [("If-None-Match", tag)])
        #expect(again.status == 304 && again.body.isEmpty)
        #expect(again.header("content-security-policy") == [Self.policy])
        #expect(first.header("cache-control") == ["no-cache"] && again.header("cache-control") == ["no-cache"])
        #expect(try await send(.GET, url, headers: [("If-None-Match", "\"x\"")]).body == first.body)
        let head = try await send(.HEAD, url)
        #expect(head.status == 200 && head.body.isEmpty && head.header("etag") == [tag])
    }

    @Test func `no operator response is cached or interpreted as another type`() async throws {
        let gateway = try await LiveGateway.start()
        let below: [(method: HTTPMethod, path: String, status: Int)] = [
            (.GET, "/console/nope.js", 404), (.GET, "/console/session", 405), (.POST, "/console", 405),
            (.POST, "/console/session", 415), (.DELETE, "/console/session", 204), (.GET, "/admin/me", 200),
            (.GET, "/admin/organizations", 200), (.GET, "/admin/organizations?x=y", 400),
            (.GET, "/admin/organizations/\(UUID().lowercased)", 404), (.GET, "/admin", 404),
            (.GET, "/admin/nope", 404), (.PATCH, "/admin/me", 405),
        ]
        for (method, path, status) in below {
            let token = path.hasPrefix("/admin") ? LiveGateway.operatorToken : nil
            let reply = try await send(method, gateway.operations + path, token: token)
            #expect(reply.status == status, "\(path): \(reply.text)")
            #expect(reply.header("cache-control") == ["no-store"], "\(path)")
            #expect(reply.header("x-content-type-options") == ["nosniff"], "\(path)")
            let policies = path.hasPrefix("/console") ? [Self.policy] : []
            #expect(reply.header("content-security-policy") == policies, "\(path)")
            if status >= 400 { #expect(reply.header("content-type") == ["application/problem+json"], "\(path)") }
        }
        let nobody = try await send(.GET, gateway.operations + "/admin/me")
        #expect(nobody.status == 401 && nobody.header("cache-control") == ["no-store"])
        for path in ["/livez", "/metrics", "/administration"] {
            #expect(try await send(.GET, gateway.operations + path).header("cache-control").isEmpty, "\(path)")
        }
        let elsewhere = try await send(.GET, gateway.address + "/admin/me")
        #expect(elsewhere.header("cache-control").isEmpty, "the public listener has nothing there")
    }

    @Test func `the console does not exist without an operator token in the settings`() async throws {
        let gateway = try await LiveGateway.start { $0.operatorTokens = nil }
        for path in ["/console", "/console/index.html", "/console/session", "/admin/me"] {
            expectProblem(try await send(.GET, gateway.operations + path), .notFound, errors: [])
        }
    }
}
