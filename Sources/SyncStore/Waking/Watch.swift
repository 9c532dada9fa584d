import Synchronization

/// Tells one reader that something it has an interest in was changed since it last asked. Carries no data: the reader
/// looks for itself, so a signal that is lost costs time only.
public final class Watch: Sendable {
    /// What was changed.
    public struct News: Sendable, Hashable {
        /// Whether mutations or mappings of the lane were.
        public var lane = false
        /// How far the feed has come with something that the reader may see; nil: nothing of that kind.
        public var feed: Int64?

        /// No news.
        public init() {}

        var isEmpty: Bool { !lane && feed == nil }
    }

    private struct State {
        var news = News()
        var isEnded = false
        var reader: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    init() {}

    /// Waits for news, for at most `limit`, until the task is cancelled, or until ``end()``. Answers at once when there
    /// are some since the last call. One caller at a time.
    public func news(within limit: Duration) async -> News {
        if limit > .zero {
            let timer = Task {
                do { try await Task.sleep(for: limit) } catch { return }
                self.wake()
            }
            await wait()
            timer.cancel()
        }
        return state.withLock { state in
            defer { state.news = News() }
            return state.news
        }
    }

    /// Lets the reader wait no more.
    public func end() {
        change { $0.isEnded = true }
    }

    /// Whether ``end()`` was called.
    public var isEnded: Bool { state.withLock { $0.isEnded } }

    func laneChanged() {
        change { $0.news.lane = true }
    }

    func feedMoved(to position: Int64) {
        change { $0.news.feed = max($0.news.feed ?? 0, position) }
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if !state.news.isEmpty || state.isEnded || Task.isCancelled { return true }
                    state.reader = continuation
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            wake()
        }
    }

    private func wake() {
        change { _ in }
    }

    private func change(_ body: (inout State) -> Void) {
        let reader = state.withLock { state in
            body(&state)
            defer { state.reader = nil }
            return state.reader
        }
        reader?.resume()
    }
}
