import Foundation

/// A page of the feed, described in `docs/api.md` (a change) and `docs/id-spaces.md` (a pull in a device's local ids).
struct ChangesPage: Sendable {
    let changes: [JSON]
    let next: String
    let isUpToDate: Bool
    /// The device's counters after the page; only in a pull in the device's local ids.
    let nextLocalIDs: NextLocalIDs

    /// - Returns: nil if the value is not a page.
    init?(_ json: JSON) {
        guard let changes = json["changes"]?.array, let next = json["next"]?.string else { return nil }
        self.changes = changes
        self.next = next
        isUpToDate = json["up_to_date"]?.bool ?? false
        nextLocalIDs = json.nextLocalIDs
    }
}

extension JSON {
    /// The counters in a response. Counters are at least 1.
    var nextLocalIDs: NextLocalIDs {
        self["next_local_ids"]?.object?.compactMapValues { $0.int64.flatMap { $0 > 0 ? $0 : nil } } ?? [:]
    }
}

/// The device's counters: for each type, the local id of the next row.
typealias NextLocalIDs = [String: Int64]
