public import SyncModel

/// Room for a page in memory: taken before rows are read, given back while the reader waits for something to show.
public struct PageRoom: Sendable {
    let enter: @Sendable () async throws(Problem) -> Void
    let leave: @Sendable () -> Void

    /// - Parameters:
    ///   - enter: takes room, once there is some; does nothing where it is taken already.
    ///   - leave: gives it back.
    public init(enter: @escaping @Sendable () async throws(Problem) -> Void, leave: @escaping @Sendable () -> Void) {
        self.enter = enter
        self.leave = leave
    }

    /// As much as one likes.
    public static let unbounded = PageRoom { () async throws(Problem) in
    } leave: {
    }
}
