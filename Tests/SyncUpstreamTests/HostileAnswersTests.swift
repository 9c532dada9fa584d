import Foundation
import NIOCore
import SyncModel
import TestSupport
import Testing

@testable import SyncUpstream
@testable import WebhooksFeature

/// Any bytes from one organization's server must not crash the gateway that all organizations use.
@Suite struct HostileAnswersTests {
    /// Approximate HTTP: heads and bodies that may not match, truncated or with an invalid byte.
    private static func answer(_ random: inout SeededRandom) -> String {
        func pick(_ texts: [String]) -> String { texts.randomElement(using: &random) ?? "" }
        var text = ""
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            let version = pick(["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/3.1", "ICY"])
            let status = pick([
                "000", "007", "099", "100", "101", "102", "103", "199", "200", "201", "204", "205", "206", "301", "304",
                "400", "409", "412", "429", "500", "503", "599", "600", "999", "1000", "20", "abc", "",
            ])
            text += "\(version) \(status) \(pick(["X", "", "é", String(repeating: "y", count: 300)]))\r\n"
            for _ in 0..<Int.random(in: 0...3, using: &random) {
                text +=
                    pick([
                        "Content-Length: 0", "Content-Length: 1", "Content-Length: 12", "Content-Length: 70000",
                        "Content-Length: 18446744073709551616", "Content-Length: -1", "Transfer-Encoding: chunked",
                        "Transfer-Encoding: gzip, chunked", "Connection: close", "Connection: upgrade", "Upgrade: h2c",
                        "Retry-After: 99999999999999999999", "Retry-After: -1", "Content-Encoding: gzip", " folded: x",
                        "ETag: \"e\"", "X-A: \u{0}", "Trailer: X", "no colon",
                    ]) + "\r\n"
            }
            text +=
                "\r\n"
                + pick([
                    "", "hello", #"{"id":"i1"}"#, "5\r\nhello\r\n0\r\n\r\n",
                    "b\r\n{\"id\":\"i1\"}\r\n0\r\nX: y\r\n\r\n",
                    "ffffffffffffffff\r\n", "zz\r\n", "0\r\n\r\n", "-1\r\n", String(repeating: "x", count: 70_000),
                ])
        }
        if random.oneIn(5) {
            text = String(text.prefix(Int.random(in: 0...200, using: &random)))
        }
        return text
    }

    private static let good = "HTTP/1.1 201 Created\r\nContent-Length: 6\r\n\r\n{\"id\":1}"

    @Test(arguments: [false, true]) func `any bytes from an upstream or an endpoint are an answer`(_ early: Bool)
        async throws
    {
        let seed = Seed()
        // the failure that this test looks for ends the process before an expectation could report it
        print(seed)
        var random = seed.generator
        let answers = (0..<400).map { _ in Self.answer(&random) }
        let server = try await ScriptedServer.start(early: early) { number, _ in
            // the valid answers leave connections to reuse
            number.isMultiple(of: 2) ? [.send(Self.good)] : [.send(answers[number % answers.count]), .close]
        }
        let sender = WebhookSenderTests.sender()
        let line = await sender.open(server.baseURL)
        let body = String(repeating: "x", count: 3_000)
        try await withUpstream { upstream in
            var (answered, heard) = (0, 0)
            for _ in 0..<50 {
                async let responses = Self.count {
                    await upstream.send(request(body: body), to: UpstreamSettings(baseURL: server.baseURL)).response
                        != nil
                }
                async let statuses = Self.count {
                    guard case .status = await sender.send(Array(body.utf8), headers: [], on: line) else {
                        return false
                    }
                    return true
                }
                answered += await responses
                heard += await statuses
            }
            // at least most of the valid responses are received
            #expect(answered > 60 && heard > 60, "\(answered), \(heard), \(seed)")
        }
        await line.close()
    }

    /// The number of successes of eight concurrent attempts.
    private static func count(_ attempt: @escaping @Sendable () async -> Bool) async -> Int {
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 { group.addTask(operation: attempt) }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
    }
}
