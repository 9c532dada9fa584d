import Synchronization

/// Recognizes the first call within each second.
final class OncePerSecond: Sendable {
    private let last = Atomic<Int64>(.min)

    func isFirst(at second: Int64) -> Bool {
        last.exchange(second, ordering: .relaxed) != second
    }
}
