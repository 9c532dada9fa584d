import Foundation
package import SyncModel
package import SyncStore
import Synchronization

/// The memory of one request's response, from before it is made until the client has read it.
package final class AnswerHold: Sendable {
    /// Responses up to this size, in bytes, are not counted: connections hold more anyway.
    package static let small = 16_384
    /// The bytes reserved for a page before it is read: the limit at which its readers end.
    package static let page = 2_097_152
    /// The bytes reserved for one mutation: its payload, its response and its error may have a megabyte each.
    package static let mutation = 3_145_728
    /// The bytes reserved for a backlog.
    package static let backlog = 262_144
    /// The bytes reserved for a preview, which holds documents and requests while it plans.
    package static let preview = WorkBounds.preview
    /// The bytes reserved for one id mapping.
    package static let mapping = 256

    private struct State {
        package var user = LaneKey.nobody
        /// Bytes.
        package var held = 0
        /// Whether it has one of the turns in which pages are read.
        package var isReading = false
    }

    private let gate: FairGate
    private let pages: FairGate
    private let state = Mutex(State())

    /// - Parameters:
    ///   - gate: bytes of responses.
    ///   - pages: turns to read a page.
    package init(_ gate: FairGate, pages: FairGate) {
        self.gate = gate
        self.pages = pages
    }

    /// Sets the response's user.
    ///
    /// - Throws: `overloaded` if the organization's unread responses already exceed its share.
    package func belongs(to user: LaneKey) throws(Problem) {
        state.withLock { $0.user = user }
        try gate.requireShare(of: user)
    }

    /// Sets the response's user; returns false if the organization's unread responses already exceed its share.
    package func mayBelong(to user: LaneKey) -> Bool {
        state.withLock { $0.user = user }
        return !gate.isOver(user)
    }

    /// Reserves room for the response, once there is enough; does nothing if it was reserved.
    ///
    /// - Throws: `overloaded` when room did not come in time. Nothing is reserved then.
    ///
    /// - Parameter isPage: whether it needs one of the turns in which pages are read.
    package func enter(_ bytes: Int = AnswerHold.page, isPage: Bool? = nil) async throws(Problem) {
        let before = state.withLock { $0 }
        guard before.held == 0 else { return }
        let weight = gate.weight(bytes)
        try await gate.enter(weight, for: before.user)
        state.withLock { $0.held = weight }
        guard isPage ?? (bytes == Self.page) else { return }
        do throws(Problem) {
            try await pages.enter(1, for: before.user)
        } catch {
            leave()
            throw error
        }
        state.withLock { $0.isReading = true }
    }

    /// Reserves room for the response if there is enough without waiting.
    package func offers(_ bytes: Int) -> Bool {
        let before = state.withLock { $0 }
        guard before.held == 0 else { return true }
        let weight = gate.weight(bytes)
        guard gate.entersAtOnce(weight, for: before.user) else { return false }
        state.withLock { $0.held = weight }
        return true
    }

    /// Counts the response with its actual size.
    ///
    /// - Returns: whether bytes are held until ``leave()``.
    package func settle(at size: Int) -> Bool {
        let size = size > Self.small ? size : 0
        let before = state.withLock { state in
            defer { (state.held, state.isReading) = (size, false) }
            return state
        }
        if before.isReading { pages.leave(1, of: before.user) }
        if size > before.held {
            gate.count(size - before.held, for: before.user)
        } else {
            gate.leave(before.held - size, of: before.user)
        }
        return size > 0
    }

    package func leave() {
        _ = settle(at: 0)
    }

    /// For readers that look several times, and hold nothing while they wait.
    package func room(for bytes: Int = AnswerHold.page) -> PageRoom {
        PageRoom { () async throws(Problem) in
            try await self.enter(bytes)
        } leave: {
            self.leave()
        }
    }
}

extension LaneKey {
    /// Requests without a user: those of operators, and those for public resources.
    package static let nobody = LaneKey(
        organization: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)),
        user: UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    )
}
