import FoundationEssentials
package import SyncModel
package import SyncStore
import Synchronization

/// The memory reservation of a response. It begins before the response is created, and ends when the client has read
/// it.
package final class ResponseMemoryLease: Sendable {
    /// The size in bytes up to which responses are not counted, because each connection uses more memory anyway.
    package static let small = 16_384
    /// The bytes reserved for a page before it is read. Reading ends at this size.
    package static let page = 2_097_152
    /// The bytes reserved for one mutation.
    ///
    /// The payload, the response, the error and the list of blocking mutations may each have a megabyte.
    package static let mutation = 4_194_304
    /// The bytes reserved for a backlog.
    package static let backlog = 262_144
    /// The bytes reserved for a preview, which keeps documents and requests in memory while it plans.
    package static let preview = WorkBounds.preview
    /// The bytes reserved for one id mapping of a list, regardless of the length of its server id.
    package static let mapping = 2 * WorkCost.mapping

    private struct State {
        package var user = LaneKey.unknown
        /// The reserved bytes.
        package var held = 0
        /// Whether the request has a place among the concurrent reads of pages.
        package var isReading = false
    }

    private let gate: AdmissionController
    private let pages: AdmissionController
    private let state = Mutex(State())

    /// - Parameters:
    ///   - gate: the budget of bytes of responses.
    ///   - pages: the limit of concurrent reads of pages.
    package init(_ gate: AdmissionController, pages: AdmissionController) {
        self.gate = gate
        self.pages = pages
    }

    /// Sets the response's user.
    ///
    /// - Throws: `overloaded` if the organization's unread responses already exceed its share.
    package func assign(to user: LaneKey) throws(Problem) {
        state.withLock { $0.user = user }
        try gate.requireShare(of: user)
    }

    /// Sets the response's user; returns false if the organization's unread responses already exceed its share.
    package func tryAssign(to user: LaneKey) -> Bool {
        state.withLock { $0.user = user }
        return !gate.isOver(user)
    }

    /// Reserves memory for the response, and waits if necessary. Does nothing if memory was already reserved.
    ///
    /// - Parameter isPage: whether the response counts toward the limit of concurrent reads of pages.
    /// - Throws: `overloaded` if the memory could not be reserved in time. In this case nothing is reserved.
    package func acquire(_ bytes: Int = ResponseMemoryLease.page, isPage: Bool? = nil) async throws(Problem) {
        let before = state.withLock { $0 }
        guard before.held == 0 else { return }
        let weight = gate.weight(bytes)
        try await gate.acquire(weight, for: before.user)
        state.withLock { $0.held = weight }
        guard isPage ?? (bytes == Self.page) else { return }
        do throws(Problem) {
            try await pages.acquire(1, for: before.user)
        } catch {
            release()
            throw error
        }
        state.withLock { $0.isReading = true }
    }

    /// Extends the reservation to a total number of bytes, and waits if necessary.
    ///
    /// - Throws: `overloaded` if the memory could not be reserved in time.
    package func extend(to bytes: Int) async throws(Problem) {
        let (missing, user) = missing(of: bytes)
        guard missing > 0 else { return }
        try await gate.acquire(missing, for: user)
        state.withLock { $0.held += missing }
    }

    /// Extends the reservation to a total number of bytes, if this is possible without waiting.
    package func tryAcquire(_ bytes: Int) -> Bool {
        let (missing, user) = missing(of: bytes)
        guard missing > 0 else { return true }
        guard gate.tryAcquire(missing, for: user) else { return false }
        state.withLock { $0.held += missing }
        return true
    }

    private func missing(of bytes: Int) -> (bytes: Int, user: LaneKey) {
        let weight = bytes > Self.small ? gate.weight(bytes) : 0
        return state.withLock { (weight - $0.held, $0.user) }
    }

    /// Changes the reservation to the response's actual size.
    ///
    /// - Returns: whether bytes stay reserved until ``release()``.
    package func resize(to size: Int) -> Bool {
        let size = size > Self.small ? size : 0
        let before = state.withLock { state in
            defer { (state.held, state.isReading) = (size, false) }
            return state
        }
        if before.isReading { pages.release(1, of: before.user) }
        if size > before.held {
            gate.count(size - before.held, for: before.user)
        } else {
            gate.release(before.held - size, of: before.user)
        }
        return size > 0
    }

    package func release() {
        _ = resize(to: 0)
    }

    /// Returns a permit for readers that read several times. While such a reader waits, it reserves no memory.
    package func room(for bytes: Int = ResponseMemoryLease.page) -> PagePermit {
        PagePermit { () async throws(Problem) in
            try await self.acquire(bytes)
        } release: {
            self.release()
        }
    }
}

extension LaneKey {
    /// The placeholder for requests without a user: requests of operators, and requests for public resources.
    package static let unknown = LaneKey(
        organization: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        user: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    )
}
