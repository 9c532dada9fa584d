/// A count that stops: so many, or more than that.
package struct CappedCount: Sendable, Hashable {
    package let count: Int
    /// Whether there are more than were counted.
    package let isMore: Bool

    package init(count: Int, isMore: Bool = false) {
        self.count = count
        self.isMore = isMore
    }

    /// Of rows that were searched for up to one more than the cap.
    ///
    /// They are in places of which as many were searched.
    package init(_ count: Int64, among looked: Int64, cap: Int64) {
        self.init(count: Int(min(count, cap)), isMore: max(count, looked) > cap)
    }

    /// Of rows that were searched for up to one more than the cap.
    package init(looked count: Int64, cap: Int64) {
        self.init(count: Int(min(count, cap)), isMore: count > cap)
    }
}
