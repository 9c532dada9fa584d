import HTTPTypes
import SyncHTTP
import SyncModel

/// `GET /admin/now` and `GET /admin/events`: the current state, once and as a stream.
struct NowEndpoints: Sendable {
    static let eventType = "text/event-stream"

    let statusService: OperatorStatusService
    let configuration: HTTPConfiguration
    private let overload = Overload(.listeners)

    init(statusService: OperatorStatusService, configuration: HTTPConfiguration) {
        self.statusService = statusService
        self.configuration = configuration
    }

    func read(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        return Answer(.ok, try await statusService.view(withHistory: true))
    }

    /// Streams until the session ends, or the longest time of a stream.
    func listen(_ exchange: Exchange) async throws -> Answer {
        _ = try URLQuery(of: exchange)
        var answer = Answer(.ok)
        answer.contentType = Self.eventType
        answer.headers[.cacheControl] = "no-store"
        // nginx would keep events until a buffer is full
        answer.headers[.xAccelBuffering] = "no"
        guard exchange.head.method != .head else {
            answer.stream = { _ in }
            return answer
        }
        guard let (frames, end) = statusService.listen() else { throw overload.problem() }
        let left = exchange.operatorUntil.map { max(0, $0 - configuration.now().seconds) }
        let longest = left.map { min(configuration.maximumStream, .seconds($0)) } ?? configuration.maximumStream
        answer.stream = { [statusService] write in
            async let _ = Self.end(end, after: longest)
            try await write(OperatorFrame.opening)
            if let view = try? await statusService.view(withHistory: false) { try await write(OperatorFrame.now(view)) }
            for await frame in frames { try await write(frame) }
        }
        return answer
    }

    private static func end(_ end: @Sendable () -> Void, after longest: Duration) async {
        // cancelled when the stream has ended before
        try? await Task.sleep(for: longest)
        end()
    }
}
