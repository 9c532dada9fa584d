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
        var isGivenUp = false
    }

    private let upstream: any Upstream
    private let state = Mutex(State())

    init(_ upstream: any Upstream) {
        self.upstream = upstream
    }

    /// Whether requests are cancelled.
    var isGivenUp: Bool { state.withLock { $0.isGivenUp } }

    func send(_ request: UpstreamRequest, to settings: UpstreamSettings) async -> UpstreamAnswer {
        let id = UUID()
        let task = Task { await upstream.send(request, to: settings) }
        let isGivenUp = state.withLock { state in
            state.tasks[id] = task
            return state.isGivenUp
        }
        if isGivenUp { task.cancel() }
        defer { state.withLock { $0.tasks[id] = nil } }
        return await task.value
    }

    /// Cancels the requests in progress, and all later ones.
    func giveUp() {
        let tasks = state.withLock { state in
            state.isGivenUp = true
            return Array(state.tasks.values)
        }
        for task in tasks { task.cancel() }
    }
}
