import Foundation
import GatewaySupport
import JSONText
import SyncModel
import TestSupport
import Testing

@testable import SyncHTTP

/// A web app in a real browser, on a page of another origin than the gateway's.
@Suite(
    .enabled(if: TestServer.program("chromium") != nil, "chromium is not installed (scripts/bootstrap --tests)"),
    .serialized,
    .timeLimit(.minutes(10))
)
struct BrowserTests {
    @Test func `a page of an allowed origin can push, pull, receive events and read rejections`() async throws {
        let page = try await PageServer(Self.page)
        let fixture = try await TwoTenantFixture { $0.allowedOrigins = AllowedOrigins(parsing: page.origin) }
        let report = try await Self.visit(page, fixture)
        #expect(report["error"] == nil, "\(report.text)")
        #expect(report["pushed"]?.string == "succeeded")
        #expect(report["heard"]?.string == "succeeded", "fetch reads an event from the stream")
        #expect(report["changes"]?.text == "2")
        #expect(report["refused"]?.text == "401")
        #expect(report["request_id"]?.string?.isEmpty == false, "the page can read an exposed header")
        #expect(report["problem"]?.string == "unauthorized")
        // both pushes need one preflight, because the browser caches its response
        let preflights = try await fixture.metrics().filter {
            $0.hasPrefix("sluice_http_requests_total{") && $0.contains(#"method="OPTIONS""#)
                && $0.contains(#"route="/v1/mutations",status="2xx""#)
        }
        #expect(preflights.count == 1 && preflights[0].hasSuffix(" 1"), "\(preflights)")
    }

    @Test func `a page of another origin gets no access`() async throws {
        let page = try await PageServer(Self.page)
        let fixture = try await TwoTenantFixture {
            $0.allowedOrigins = AllowedOrigins(parsing: "https://app.example.org")
        }
        let report = try await Self.visit(page, fixture)
        #expect(report["error"]?.string?.hasPrefix("TypeError") == true, "\(report.text)")
        #expect(try await fixture.ada.get("/v1/changes").changes.isEmpty, "the preflight stopped the push")
    }

    /// Opens the page in a separate browser, and returns its result.
    private static func visit(_ page: PageServer, _ fixture: TwoTenantFixture) async throws -> JSONValue {
        let pushes = (1...2).map { _ in fixture.ada.envelope([fixture.ada.create()]) }
        let work =
            #"{"gateway":"\#(fixture.gateway.address)","token":"\#(fixture.ada.token)","pushes":[\#(pushes.joined(separator: ","))]}"#
        let folder = FileManager.default.temporaryDirectory.appending(path: "browser-\(UUID().lowercased)")
        defer { try? FileManager.default.removeItem(at: folder) }
        let browser = try Program(
            shell: """
                exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \\
                    --disable-background-networking --disable-component-update --user-data-dir="$FOLDER" "$ADDRESS"
                """,
            environment: [
                "FOLDER": folder.path,
                "ADDRESS": page.origin + "/#" + Data(work.utf8).base64EncodedString(),
            ]
        )
        defer { browser.send(SIGKILL) }
        return try JSONTree(parsing: Array(try await page.report().utf8)).root
    }

    private static let page = """
        <!doctype html>
        <meta charset="utf-8">
        <title>A web app</title>
        <script type="module">
        const { gateway, token, pushes } = JSON.parse(atob(location.hash.slice(1)))
        const headers = { Authorization: 'Bearer ' + token }
        const json = { ...headers, 'Content-Type': 'application/json', Prefer: 'wait=10' }
        const push = body => fetch(gateway + '/v1/mutations', { method: 'POST', headers: json, body: JSON.stringify(body) })

        // the first event about a mutation: what is pushed while the stream is open
        async function hear(whenOpen) {
          const stream = await fetch(gateway + '/v1/events', { headers: { ...headers, Accept: 'text/event-stream' } })
          const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader()
          let text = ''
          for (let isOpen = false;;) {
            const { value, done } = await reader.read()
            if (done) throw new Error('the stream has ended: ' + text)
            text += value
            if (!isOpen && text.includes('\\n\\n')) { isOpen = true; await whenOpen() }
            const frame = text.split('\\n\\n').find(frame => frame.includes('event: mutation'))
            if (frame) {
              await reader.cancel()
              return JSON.parse(frame.split('\\n').find(line => line.startsWith('data: ')).slice(6)).status
            }
          }
        }

        const report = {}
        try {
          report.pushed = (await (await push(pushes[0])).json()).results[0].status
          report.heard = await hear(() => push(pushes[1]))
          report.changes = (await (await fetch(gateway + '/v1/changes', { headers })).json()).changes.length
          const refused = await fetch(gateway + '/v1/changes')
          report.refused = refused.status
          report.request_id = refused.headers.get('X-Request-ID')
          report.problem = (await refused.json()).code
        } catch (error) {
          report.error = error.name + ': ' + error.message
        }
        await fetch('/result', { method: 'POST', body: JSON.stringify(report) })
        </script>
        """
}
