/// What has become of a page in which ids were assigned, when its device pulls on from there (tentative assignments).
public enum PageStanding: Sendable, Hashable {
    /// What it assigned is to be confirmed now.
    case outstanding
    /// It was confirmed before, or a later one was: there is nothing to do.
    case done
    /// Nobody knows what it assigned: too many pages were pulled anew in between.
    case lost

    /// - Parameters:
    ///   - page: the page's number; 0 for none.
    ///   - pages: the device's pages that are known, and whether they are outstanding; one that is not is the last
    ///     confirmed.
    public init(of page: Int64, among pages: [(page: Int64, isOutstanding: Bool)]) {
        guard page > 0 else {
            self = .done
            return
        }
        if let known = pages.first(where: { $0.page == page }) {
            self = known.isOutstanding ? .outstanding : .done
        } else {
            // a device that was restored from a backup has an old cursor
            self = pages.contains { !$0.isOutstanding && $0.page > page } ? .done : .lost
        }
    }
}
