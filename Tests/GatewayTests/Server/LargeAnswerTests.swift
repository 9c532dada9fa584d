import GatewaySupport
import NIOHTTP1
import SyncHTTP
import Testing

/// Responses that the system cannot buffer as a whole, on connections that close after them.
@Suite struct LargeAnswerTests {
    /// The reason why a connection ends.
    enum End: String, CaseIterable, CustomTestStringConvertible {
        case clientOfHTTP10, closeIsAsked, sendingIsOver, closeIsAskedOfTheSecond

        var testDescription: String { rawValue }
    }

    /// A gateway with a page of 1.5 MB, more than the system buffers for a client that does not read.
    private static func fixture(_ configure: @Sendable (inout HTTPConfiguration) -> Void = { _ in }) async throws
        -> TwoTenantFixture
    {
        let fixture = try await TwoTenantFixture(configure: configure)
        let text = String(repeating: "x", count: 250_000)
        for _ in 0..<6 { _ = try await fixture.ada.push([fixture.ada.create("task", #"{"title":"\#(text)"}"#)]) }
        return fixture
    }

    private static func request(_ fixture: TwoTenantFixture, version: String = "1.1", _ field: String = "") -> String {
        "GET /v1/changes HTTP/\(version)\r\nHost: x\r\nAuthorization: Bearer \(fixture.ada.token)\r\n\(field)\r\n"
    }

    @Test(arguments: End.allCases)
    func `a large response arrives completely before its connection closes`(end: End) async throws {
        let fixture = try await Self.fixture()
        let connection = try RawConnection(port: fixture.gateway.port, receiveBuffer: 4_096)
        switch end {
        case .clientOfHTTP10: await connection.send(Self.request(fixture, version: "1.0"))
        case .closeIsAsked: await connection.send(Self.request(fixture, "Connection: close\r\n"))
        case .sendingIsOver:
            await connection.send(Self.request(fixture))
            connection.finishSending()
        case .closeIsAskedOfTheSecond:
            await connection.send(Self.request(fixture) + Self.request(fixture, "Connection: close\r\n"))
            #expect(try await connection.reply().changes.count == 6)
        }
        #expect(try await connection.reply().changes.count == 6)
        #expect(await connection.ends())
    }

    @Test func `a connection is not idle while its client reads a response`() async throws {
        let fixture = try await Self.fixture { $0.idleTimeout = .seconds(1) }
        let slow = try RawConnection(port: fixture.gateway.port, receiveBuffer: 4_096)
        await slow.send(Self.request(fixture))
        let length = try await slow.head().headers.first(name: "content-length").flatMap { Int($0) }
        let idle = try RawConnection(port: fixture.gateway.port)
        await idle.send("GET /v1/nothing HTTP/1.1\r\nHost: x\r\n\r\n")
        _ = try await idle.reply()
        // at this time the other connection has also reached its time-out
        #expect(await idle.ends())
        #expect(await slow.rest().count == length)
    }
}
