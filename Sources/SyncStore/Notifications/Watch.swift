import FoundationEssentials
import SyncModel
import Synchronization

/// Lets one reader wait for a change of the data that the reader watches.
package final class Watch: ChangeObserver {
    private struct State {
        var changes = PendingChanges()
        /// Whether the time limit of the current call has passed.
        var isLate = false
        var reader: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    init() {}

    /// Waits for changes until `limit` has passed or the task is cancelled. If there were changes since the last call,
    /// returns immediately. Supports one caller at a time.
    package func changes(within limit: Duration) async -> PendingChanges {
        if limit > .zero {
            let timer = Task {
                do { try await Task.sleep(for: limit) } catch { return }
                self.change { $0.isLate = true }
            }
            await wait()
            timer.cancel()
        }
        return state.withLock { state in
            defer {
                state.changes = PendingChanges()
                state.isLate = false
            }
            return state.changes
        }
    }

    package func laneChanged() {
        change { $0.changes.laneChanged() }
    }

    package func feedMoved(to position: Int64) {
        change { $0.changes.feedMoved(to: position) }
    }

    private func wait() async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if !state.changes.isEmpty || state.isLate || Task.isCancelled { return true }
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

/// The changes for an observer since its last read.
package struct PendingChanges: Sendable, Hashable {
    /// Whether mutations or mappings of the lane were changed.
    package private(set) var lane = false
    /// The feed's position with a change that the observer may see; nil if there is no such change.
    package private(set) var feed: Int64?

    package init() {}

    package var isEmpty: Bool { !lane && feed == nil }

    package mutating func laneChanged() { lane = true }

    package mutating func feedMoved(to position: Int64) { feed = max(feed ?? 0, position) }
}

/// A short name for a lane or an organization's feed in hints between replicas.
///
/// A name has 48 bits, in eight characters. If two lanes or feeds have the same name, the only cost is an unnecessary
/// poll.
struct WakeName: Hashable, Sendable {
    /// The length of a name, in characters.
    static let length = 8

    let bits: UInt64

    init(_ lane: LaneKey) {
        self.init(bits: Self.fold(lane.user) &+ Self.fold(lane.organization) &* 31)
    }

    init(feedOf organization: UUID) {
        self.init(bits: Self.fold(organization))
    }

    init?(_ text: some Sequence<UInt8>) {
        var bits: UInt64 = 0
        var count = 0
        for byte in text {
            guard let digit = Self.value(byte) else { return nil }
            bits = bits << 6 | digit
            count += 1
        }
        guard count == Self.length else { return nil }
        self.bits = bits
    }

    private init(bits: UInt64) {
        // the upper bits of a product are mixed best
        self.bits = (bits &* 0x9e37_79b9_7f4a_7c15) >> 16
    }

    func append(to text: inout [UInt8]) {
        for shift in stride(from: 42, through: 0, by: -6) { text.append(Self.digits[Int(bits >> UInt64(shift)) & 63]) }
    }

    private static let digits = Array("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+/".utf8)

    private static func value(_ byte: UInt8) -> UInt64? {
        digits.firstIndex(of: byte).map { UInt64($0) }
    }

    private static func fold(_ id: UUID) -> UInt64 {
        withUnsafeBytes(of: id.uuid) { bytes in
            bytes.loadUnaligned(as: UInt64.self) ^ bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        }
    }
}

/// Signals within this process, for one listener.
///
/// Signals coalesce until the listener receives a signal.
package final class CoalescedSignal: Sendable {
    private let stream = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    package init() {}

    package var signals: AsyncStream<Void> { stream.stream }

    package func send() { stream.continuation.yield() }
}
