import AsyncHTTPClient
import Foundation
import GatewaySupport
import JSONText
import NIOCore
import NIOHTTP1
import SyncModel
import Synchronization
import TestSupport

/// A client of `GET /v1/events` that reads frames.
final class EventListener: Sendable {
    /// The lines between two blank lines.
    struct Frame: Sendable {
        var event: String?
        var id: String?
        var retry: String?
        var comment: String?
        var lines: [String] = []

        var data: JSONValue? { try? JSONTree(parsing: Array(lines.joined(separator: "\n").utf8)).root }
        /// A summary of the event's mutation, mapping or cursor.
        var summary: String {
            let data = data
            return switch event {
            case "mutation": "\(data?["id"]?.string ?? "-") \(data?["status"]?.string ?? "-")"
            case "id_mapping": "\(data?["client_id"]?.string ?? "-") \(data?["server_id"]?.text ?? "-")"
            case "changes": "changes"
            default: comment ?? "opening"
            }
        }
    }

    /// The status and the headers of the response.
    let status: Int
    let headers: HTTPHeaders
    private let shared: Shared
    private let reading: Task<Void, Never>

    struct Silence: Error {}

    /// Starts to listen; returns once the response head has arrived.
    ///
    /// - Parameter client: the HTTP client; nil for the shared client.
    init(
        _ address: String,
        token: String,
        after lastEventID: String? = nil,
        origin: String? = nil,
        client: HTTPClient = .shared
    ) async throws {
        var request = HTTPClientRequest(url: address + "/v1/events")
        request.headers.add(name: "authorization", value: "Bearer \(token)")
        request.headers.add(name: "accept", value: "text/event-stream")
        if let origin { request.headers.add(name: "origin", value: origin) }
        if let lastEventID { request.headers.add(name: "last-event-id", value: lastEventID) }
        let response = try await client.execute(request, deadline: .now() + .minutes(5))
        status = Int(response.status.code)
        headers = response.headers
        let shared = Shared()
        reading = Task {
            var rest = ByteBuffer()
            var lines: [String] = []
            do {
                for try await buffer in response.body {
                    rest.writeImmutableBuffer(buffer)
                    while let length = rest.readableBytesView.firstIndex(of: UInt8(ascii: "\n")).map({
                        $0 - rest.readerIndex
                    }) {
                        let line = rest.readString(length: length) ?? ""
                        rest.moveReaderIndex(forwardBy: 1)
                        if !line.isEmpty {
                            lines.append(line)
                        } else {
                            shared.add(Self.frame(lines))
                            lines = []
                        }
                    }
                }
            } catch {}
            shared.finish()
        }
        self.shared = shared
    }

    deinit {
        reading.cancel()
    }

    /// The next frame that is not a keep-alive; nil once the stream has ended.
    func next(within limit: Duration = Waiting.limit) async throws -> Frame? {
        while let frame = try await nextFrame(within: limit) {
            if frame.comment == nil { return frame }
        }
        return nil
    }

    /// The next frame of any kind.
    func nextFrame(within limit: Duration = Waiting.limit) async throws -> Frame? {
        let deadline = ContinuousClock.now + limit
        while .now < deadline {
            switch shared.take() {
            case .frame(let frame): return frame
            case .over: return nil
            case .nothing: try await Task.sleep(for: .milliseconds(2))
            }
        }
        throw Silence()
    }

    /// The next frames that are not keep-alives, up to this number.
    func next(_ count: Int, within limit: Duration = Waiting.limit) async throws -> [Frame] {
        var frames: [Frame] = []
        while frames.count < count, let frame = try await next(within: limit) { frames.append(frame) }
        return frames
    }

    /// Frames up to and including the first that matches.
    func until(_ fits: (Frame) -> Bool) async throws -> [Frame] {
        var frames: [Frame] = []
        while let frame = try await next() {
            frames.append(frame)
            if fits(frame) { return frames }
        }
        throw Silence()
    }

    /// Closes the connection.
    func stop() { reading.cancel() }

    // MARK: - State shared by the reading task and the test

    private enum Taken { case frame(Frame), over, nothing }

    private final class Shared: Sendable {
        private struct State {
            var frames: [Frame] = []
            var isOver = false
        }

        private let state = Mutex(State())

        func add(_ frame: Frame) { state.withLock { $0.frames.append(frame) } }
        func finish() { state.withLock { $0.isOver = true } }
        func take() -> Taken {
            state.withLock { state in
                if !state.frames.isEmpty { return .frame(state.frames.removeFirst()) }
                return state.isOver ? .over : .nothing
            }
        }
    }

    private static func frame(_ lines: [String]) -> Frame {
        var frame = Frame()
        for text in lines {
            guard let colon = text.firstIndex(of: ":") else { continue }
            var value = text[text.index(after: colon)...]
            if value.first == " " { value.removeFirst() }
            switch text[..<colon] {
            case "": frame.comment = String(value)
            case "event": frame.event = String(value)
            case "id": frame.id = String(value)
            case "retry": frame.retry = String(value)
            case "data": frame.lines.append(String(value))
            default: break
            }
        }
        return frame
    }
}

extension SyncWorker {
    /// Listens to the user's events, after the first frame.
    func listen(after lastEventID: String? = nil) async throws -> (events: EventListener, start: String) {
        let events = try await EventListener(gateway.address, token: token, after: lastEventID)
        guard let opening = try await events.next(), let start = opening.id, opening.event == nil else {
            throw EventListener.Silence()
        }
        return (events, start)
    }
}
