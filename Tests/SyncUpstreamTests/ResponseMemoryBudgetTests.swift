import Foundation
import NIOCore
import SyncModel
import SyncUpstream
import TestSupport
import Testing

/// The memory that bodies of upstreams' answers share.
@Suite struct ResponseMemoryBudgetTests {
    private static let mebibyte = 1_048_576

    private static func configuration(bytes: Int) -> HTTPUpstreamConfiguration {
        var configuration = HTTPUpstreamConfiguration.patient
        configuration.answerBytes = bytes
        return configuration
    }

    private static func request(of organization: UUID, timeout: Duration = .seconds(60)) -> UpstreamRequest {
        var request = SyncUpstreamTests.request(timeout: timeout)
        request.organization = organization
        return request
    }

    private func eventually(_ condition: () -> Bool) async throws {
        try await waitUntil("the condition") { condition() }
    }

    /// The last two bytes of each answer come late, and the room is enough for four answers.
    @Test func `all of many slow answers are read, within the room for four`() async throws {
        let body = #"{"a":""# + String(repeating: "x", count: 1_000_000) + #""}"#
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
        let server = try await ScriptedServer.start { _, _ in
            [.send(head + body.dropLast(2)), .wait(.milliseconds(500)), .send(String(body.suffix(2)))]
        }
        try await withUpstream(Self.configuration(bytes: 4 * Self.mebibyte)) { upstream in
            let highest = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<16 {
                    group.addTask {
                        let answer = await upstream.send(
                            Self.request(of: UUID()),
                            to: UpstreamSettings(baseURL: server.baseURL)
                        )
                        let held = upstream.room.held
                        #expect(answer.response?.json?.count == body.utf8.count)
                        return held
                    }
                }
                return await group.reduce(0, max)
            }
            #expect((1...4 * Self.mebibyte).contains(highest))
            try await eventually { upstream.room.held == 0 && upstream.room.waiting == 0 }
        }
    }

    @Test func `an answer keeps its room for as long as it exists`() async throws {
        let server = try await ScriptedServer.start(answering: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        try await withUpstream { upstream in
            func send() async {
                let answer = await upstream.send(
                    Self.request(of: UUID()),
                    to: UpstreamSettings(baseURL: server.baseURL)
                )
                #expect(answer.response?.json == Array("{}".utf8))
                #expect(upstream.room.held == 2)
                withExtendedLifetime(answer) {}
            }
            await send()
            try await eventually { upstream.room.held == 0 }
        }
    }

    @Test(arguments: [("409 Conflict", true), ("200 OK", false)])
    func `an answer that gets no room in time counts as broken off`(_ status: String, _ isUnknown: Bool) async throws {
        let head = "HTTP/1.1 \(status)\r\nContent-Length: 1000\r\n\r\n"
        let server = try await ScriptedServer.start { number, _ in
            number < 4 ? [.send(head), .wait(.seconds(60))] : [.send(head + String(repeating: "1", count: 1_000))]
        }
        // an answer claims at most a quarter of the room, here 275 bytes
        try await withUpstream(Self.configuration(bytes: 1_100)) { upstream in
            // a task keeps its answer, and with it the answer's room, so no task may outlive this function
            func fill() async throws {
                let settings = UpstreamSettings(baseURL: server.baseURL)
                let slow = (0..<4).map { _ in
                    Task { _ = await upstream.send(Self.request(of: UUID()), to: settings) }
                }
                try await eventually { upstream.room.held == 1_100 }
                let late = await upstream.send(Self.request(of: UUID(), timeout: .seconds(1)), to: settings)
                if isUnknown {
                    #expect(late.response == nil)
                } else {
                    #expect(late.response?.isCutOff == true)
                }
                for task in slow { task.cancel() }
                for task in slow { await task.value }
            }
            try await fill()
            try await eventually { upstream.room.held == 0 && upstream.room.waiting == 0 }
        }
    }

    @Test func `one organization holds at most half of the memory`() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
        let server = try await ScriptedServer.start { _, _ in [.send(head), .wait(.seconds(60))] }
        try await withUpstream(Self.configuration(bytes: 1_000)) { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            let greedy = UUID()
            let tasks = (0..<12).map { _ in
                Task {
                    var request = Self.request(of: greedy)
                    request.user = UUID()
                    _ = await upstream.send(request, to: settings)
                }
            }
            try await eventually { upstream.room.waiting == 7 }
            #expect(upstream.room.held == 500)
            let other = Task { _ = await upstream.send(Self.request(of: UUID()), to: settings) }
            try await eventually { upstream.room.held == 600 }
            for task in tasks + [other] { task.cancel() }
            for task in tasks + [other] { await task.value }
            try await eventually { upstream.room.held == 0 && upstream.room.waiting == 0 }
        }
    }

    @Test func `answers of slow upstreams leave a quarter of the memory to others`() async throws {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
        let server = try await ScriptedServer.start { _, _ in [.send(head), .wait(.seconds(60))] }
        try await withUpstream(Self.configuration(bytes: 1_200)) { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            func send(isFast: Bool) -> Task<Void, Never> {
                Task {
                    var request = Self.request(of: UUID())
                    request.isUpstreamFast = isFast
                    _ = await upstream.send(request, to: settings)
                }
            }
            let slow = (0..<12).map { _ in send(isFast: false) }
            try await eventually { upstream.room.waiting == 3 }
            #expect(upstream.room.held == 900)
            let fast = (0..<3).map { _ in send(isFast: true) }
            try await eventually { upstream.room.held == 1_200 }
            #expect(upstream.room.waiting == 3)
            for task in slow { task.cancel() }
            for task in slow { await task.value }
            try await eventually { upstream.room.held == 300 && upstream.room.waiting == 0 }
            for task in fast { task.cancel() }
            for task in fast { await task.value }
            try await eventually { upstream.room.held == 0 }
        }
    }
}
