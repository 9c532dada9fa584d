package import SyncModel

/// Memory for a page.
///
/// Taken before rows are read, given back while the reader waits for something to show.
package struct PageRoom: Sendable {
    /// Why there is no room.
    ///
    /// (Swift 6.3 takes an import for unused if its only type is in a `throws`.)
    package typealias Failure = Problem

    let enter: @Sendable () async throws(Failure) -> Void
    package let leave: @Sendable () -> Void

    /// - Parameters:
    ///   - enter: takes room, once there is some; does nothing where it is taken already.
    ///   - leave: gives it back.
    package init(enter: @escaping @Sendable () async throws(Failure) -> Void, leave: @escaping @Sendable () -> Void) {
        self.enter = enter
        self.leave = leave
    }

    /// Without a limit.
    package static let unbounded = PageRoom { () async throws(Problem) in
    } leave: {
    }

    /// Takes room, however long others have it.
    ///
    /// - Throws: `CancellationError` if the task was cancelled.
    package func enterPatiently() async throws {
        while true {
            try Task.checkCancellation()
            do { return try await enter() } catch  where error.code == .overloaded { continue }
        }
    }

    /// Gives the room to others that wait, and takes it again.
    package func yield() async throws {
        leave()
        try await enterPatiently()
    }
}
