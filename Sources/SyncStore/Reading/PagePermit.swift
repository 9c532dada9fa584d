package import SyncModel

/// Memory for a page.
///
/// Taken before rows are read, given back while the reader waits for something to show.
package struct PagePermit: Sendable {
    /// Why there is no room.
    ///
    /// (Swift 6.3 takes an import for unused if its only type is in a `throws`.)
    package typealias Failure = Problem

    package let acquire: @Sendable () async throws(Failure) -> Void
    package let release: @Sendable () -> Void

    /// - Parameters:
    ///   - acquire: takes room, once there is some; does nothing where it is taken already.
    ///   - release: gives it back.
    package init(acquire: @escaping @Sendable () async throws(Failure) -> Void, release: @escaping @Sendable () -> Void)
    {
        self.acquire = acquire
        self.release = release
    }

    /// Without a limit.
    package static let unbounded = PagePermit { () async throws(Problem) in
    } release: {
    }

    /// Takes room, however long others hold it, unless the task is cancelled.
    package func enterPatiently() async throws {
        while true {
            try Task.checkCancellation()
            do { return try await acquire() } catch  where error.code == .overloaded { continue }
        }
    }

    /// Lets others that wait have their turn.
    package func yield() async throws {
        release()
        try await enterPatiently()
    }
}
