import Foundation
import JSONText
import Testing

@testable import SyncModel

@Suite struct BatchProbeTests {
    private static let probe = BatchProbe(organization: UUID(), path: "/health", timeout: .seconds(30))

    private static func finding(_ status: Int, _ body: String?) -> BatchProbe.Finding {
        probe.finding(of: .response(FetchedResponse(status: status, body: body.map { Array($0.utf8) })))
    }

    @Test func `all parts of the batch only read`() throws {
        let root = try JSONTree(parsing: Self.probe.body).root
        let parts = try #require(root.value(at: "/requests")?.elements.map { Array($0) })
        #expect(parts.count == 2)
        for part in parts {
            #expect(part.value(at: "/method")?.string == "GET" && part.value(at: "/url")?.string == "/health")
            #expect(part.value(at: "/body") == nil)
        }
    }

    @Test func `an upstream that answers each part supports batches, for any status of the answers`() {
        let body = #"{"responses":[{"id":"2","status":404},{"id":"1","status":200,"body":{}}]}"#
        #expect(Self.finding(200, body).isSupported == true)
    }

    @Test func `a refusal is reported with the status and the first bytes`() {
        let refused = Self.finding(404, "<h1>Not Found</h1>")
        #expect(refused.isSupported == false)
        #expect(refused.detail.contains("does not support batches") && refused.detail.contains("404"))
        #expect(refused.detail.contains("<h1>Not Found</h1>"))
        for (status, body) in [
            (413, ""), (501, "{}"), (200, "<html>"), (200, #"{"responses":[{"id":"1","status":200}]}"#),
        ] {
            #expect(Self.finding(status, body).isSupported == false, "\(status) \(body)")
        }
        #expect(Self.finding(200, nil).isSupported == false)
    }

    @Test func `an answer that is not about batches does not show whether batches are supported`() {
        for status in [302, 401, 429, 500, 503] { #expect(Self.finding(status, "").isSupported == nil, "\(status)") }
        #expect(Self.probe.finding(of: .none("connection refused")).isSupported == nil)
    }
}
