import Foundation
import JSONText
package import SyncModel

/// A place in a user's list in lane order, bound to its filter.
struct MutationCursor {
    let position: Int64
    private let filter: UInt64

    init(_ filter: MutationFilter) throws(Problem) {
        self.filter = filter.standIn()
        guard let cursor = filter.cursor else {
            position = 0
            return
        }
        let parts = cursor.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "m1", let position = Int64(parts[1], radix: 36), position >= 0,
            let made = UInt64(parts[2], radix: 36)
        else { throw .invalidParameter("cursor is invalid") }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        self.position = position
    }

    func next(_ position: Int64) -> String {
        "m1-" + String(position, radix: 36) + "-" + String(filter, radix: 36)
    }
}

/// A place in an organization's list, bound to the filter that it was made with.
struct OrganizationMutationCursor {
    let user: UUID
    let position: Int64
    private let filter: UInt64

    init(_ filter: MutationFilter, _ user: UUID?) throws(Problem) {
        self.filter = filter.standIn(excluding: ["user " + (user?.lowercased ?? "-")])
        guard let cursor = filter.cursor else {
            (self.user, position) = (user ?? UUID.least, 0)
            return
        }
        let parts = cursor.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 4, parts[0] == "o1", let place = UUID(parsing: String(parts[1])),
            let position = Int64(parts[2], radix: 36), position >= 0, let made = UInt64(parts[3], radix: 36)
        else { throw .foreignCursor }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        (self.user, self.position) = (place, position)
    }

    func next(_ user: UUID, _ position: Int64) -> String {
        "o1." + user.lowercased + "." + String(position, radix: 36) + "." + String(filter, radix: 36)
    }
}

extension Problem {
    package static var cursorOfAnotherFilter: Problem {
        invalidParameter("cursor was issued for another filter; start over without it")
    }

    package static var foreignCursor: Problem { invalidParameter("the query parameter 'cursor' is invalid") }
}
