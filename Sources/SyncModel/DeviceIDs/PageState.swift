/// The state of a page that assigned device ids, when its device pulls from there.
///
/// Its assignments are tentative.
public enum PageState: Sendable, Hashable {
    /// The pull confirms its assignments.
    case outstanding
    /// It was confirmed before, or a later page was: there is nothing to do.
    case done
    /// Its assignments are unknown: the device pulled too many pages again in between.
    case lost

    /// - Parameters:
    ///   - page: the page's number; 0 for none.
    ///   - pages: the known pages of the device. The one that is not outstanding is the last confirmed page.
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
