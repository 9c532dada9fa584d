import FoundationEssentials
import SyncModel
import Synchronization

/// Messages to the dispatcher, collected until it reads them.
///
/// The number of ready lanes is limited. Further lanes are dropped, and a later poll finds them.
final class Inbox: Sendable {
    /// The maximum number of stored ready lanes.
    static let capacity = 20_000

    struct Messages {
        /// The lanes that can be claimed.
        var ready: [LaneKey] = []
        /// The lanes that were released.
        var finished: [Finished] = []
        /// Whether to search the database now.
        var mustPoll = false
        /// The results of searches of single organizations.
        var found: [Found] = []
        /// The result of a search over all organizations.
        var due: Due?
        /// Organizations' limits of running lanes, which runners have read.
        var caps: [UUID: Int] = [:]
        /// The outcomes of requests to upstreams, in order.
        var requests: [HostClock<LaneKey>.Event] = []
        /// Whether a lane that waited for the requests of its organization's other lanes may run now.
        var hasFreeRequests = false
        var isClosed = false

        var isEmpty: Bool {
            ready.isEmpty && finished.isEmpty && !mustPoll && found.isEmpty && due == nil && caps.isEmpty
                && requests.isEmpty && !hasFreeRequests && !isClosed
        }
    }

    struct Finished {
        let lane: LaneKey
        let isDue: Bool
    }

    struct Due {
        let lanes: [LaneKey]
        let isAll: Bool
    }

    struct Found {
        let organization: UUID
        let lanes: [LaneKey]
        let isAll: Bool
    }

    private struct State {
        var messages = Messages()
        var reader: CheckedContinuation<Void, Never>?
    }

    private let state = Mutex(State())

    /// Adds a message and wakes the reader.
    func post(_ add: (inout Messages) -> Void) {
        let reader = state.withLock { state in
            add(&state.messages)
            defer { state.reader = nil }
            return state.reader
        }
        reader?.resume()
    }

    /// Adds lanes that can be claimed, up to the capacity.
    func post(ready lanes: [LaneKey]) {
        post { messages in
            let room = Self.capacity - messages.ready.count
            if room < lanes.count { messages.mustPoll = true }
            messages.ready += lanes.prefix(max(0, room))
        }
    }

    /// Waits for messages. Supports one reader.
    func next() async -> Messages {
        while true {
            let messages = state.withLock { state in
                defer { state.messages = Messages() }
                return state.messages
            }
            if !messages.isEmpty { return messages }
            await withCheckedContinuation { continuation in
                let mustWait = state.withLock { state in
                    guard state.messages.isEmpty else { return false }
                    state.reader = continuation
                    return true
                }
                if !mustWait { continuation.resume() }
            }
        }
    }
}
