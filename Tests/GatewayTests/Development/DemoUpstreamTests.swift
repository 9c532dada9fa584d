import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import Synchronization
import Testing

@testable import DemoUpstream

/// The REST API of `sluice dev --demo-upstream`, over HTTP.
@Suite struct DemoUpstreamTests {
    private final class Screen: Sendable {
        let lines = Mutex<[String]>([])
    }

    @Test func `the demo upstream behaves like a REST API and reports each request`() async throws {
        let screen = Screen()
        let upstream = try await DemoServer.start { line in screen.lines.withLock { $0.append(line) } }
        let contacts = upstream.baseURL + "/contacts"
        let key = [("Idempotency-Key", "k")]
        let body = Array(#"{"name":"Kari"}"#.utf8)
        let made = try await send(.POST, contacts, headers: key, body: body)
        #expect(made.status == 201)
        #expect(made.text == #"{"id":1,"name":"Kari"}"#)
        #expect(made.header("etag") == [#""1""#])
        #expect(made.header("location") == ["/contacts/1"])
        #expect(made.header("content-type") == ["application/json"])
        let again = try await send(.POST, contacts, headers: key, body: body)
        #expect(again.status == 201 && again.text == made.text)
        let patch = Array(#"{"city":"Oslo"}"#.utf8)
        let fits = [("If-Match", #""1""#)]
        #expect(try await send(.PATCH, contacts + "/1", headers: fits, body: patch).header("etag") == [#""2""#])
        let stale = try await send(.PATCH, contacts + "/1", headers: fits, body: patch)
        #expect(stale.status == 412)
        #expect(stale.text == #"{"id":1,"name":"Kari","city":"Oslo"}"#)
        let head = try await send(.HEAD, contacts + "/1")
        #expect(head.status == 200 && head.body.isEmpty)
        let large = [UInt8](repeating: 0x20, count: DemoDocument.maximumBytes + 1)
        #expect(try await send(.POST, contacts, body: large).status == 413)
        let gone = try await send(.DELETE, contacts + "/1")
        #expect(gone.status == 204 && gone.header("content-length") == [])
        let shown: [String] = screen.lines.withLock { $0.prefix(2).map { String($0.prefix(50)) } }
        let expected: [String] = [
            #"upstream: POST /contacts → 201 (id 1)  {"name":"Ka"#,
            "upstream: POST /contacts → 201 (repeated: same resp",
        ].map { String($0.prefix(50)) }
        #expect(shown == expected)
        await #expect(throws: DemoUpstreamError.self) {
            _ = try await DemoUpstream.listen(port: upstream.port) { _ in }
        }
    }
}
