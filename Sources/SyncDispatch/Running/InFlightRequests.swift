import FoundationEssentials
import SyncModel
import Synchronization

/// The requests in progress.
///
/// Each request is sent in a separate task, so that it can be cancelled while its lane's runner still writes the
/// outcome.
final class InFlightRequests: Sendable {
    private struct State {
        var tasks: [UUID: Task<UpstreamAnswer, Never>] = [:]
        var counts: [UUID: Int] = [:]
        var isGivenUp = false

        mutating func end(_ id: UUID, of organization: UUID) {
            tasks[id] = nil
            let count = (counts[organization] ?? 1) - 1
            counts[organization] = count > 0 ? count : nil
        }
    }

    private let upstream: any Upstream
    private let state = Mutex(State())

    init(_ upstream: any Upstream) {
        self.upstream = upstream
    }

    /// Whether requests are cancelled.
    var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

    /// The number of requests, by organization.
    var counts: [UUID: Int] { state.withLock { $0.counts } }

    func send(_ request: UpstreamRequest, to settings: UpstreamSettings) async -> UpstreamAnswer {
        let id = UUID()
        let task = Task { await upstream.send(request, to: settings) }
        let isGivenUp = state.withLock { state in
            state.tasks[id] = task
            state.counts[request.organization, default: 0] += 1
            return state.isGivenUp
        }
        if isGivenUp { task.cancel() }
        defer { state.withLock { $0.end(id, of: request.organization) } }
        return await task.value
    }

    /// Cancels the requests in progress, and every later request.
    func giveUp() {
        let tasks = state.withLock { state in
            state.isGivenUp = true
            return Array(state.tasks.values)
        }
        for task in tasks { task.cancel() }
    }
}
