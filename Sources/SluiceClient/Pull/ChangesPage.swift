import Foundation

/// A page of the feed, described in `docs/api.md` (a change) and `docs/id-spaces.md` (a pull in a device's own ids).
struct ChangesPage: Sendable {
    let changes: [JSON]
    let next: String
    let isUpToDate: Bool
    /// For a device's own pull: its counters after the page.
    let nextLocalIDs: NextLocalIDs

    /// - Returns: nil unless the value is a page.
    init?(_ json: JSON) {
        guard let changes = json["changes"]?.array, let next = json["next"]?.string else { return nil }
        self.changes = changes
        self.next = next
        isUpToDate = json["up_to_date"]?.bool ?? false
        nextLocalIDs = json.nextLocalIDs
    }
}

extension JSON {
    /// The counters in a response: numbers from 1 on.
    var nextLocalIDs: NextLocalIDs {
        self["next_local_ids"]?.object?.compactMapValues { $0.int64.flatMap { $0 > 0 ? $0 : nil } } ?? [:]
    }
}

/// The device's counters: the number of the next row of each type.
typealias NextLocalIDs = [String: Int64]
