import Foundation
import JSONText
import SyncModel
import SyncStore

/// A place among the groups of stuck mutations, bound to the filter that it was made with.
struct FailureGroupCursor {
    let organization: UUID
    /// The group behind which the page begins; nil for the organization's first.
    let key: FailureGroup.Key?
    private let filter: UInt64

    init(_ text: String?, _ filter: FailureFilter, _ organization: UUID?) throws(Problem) {
        self.filter = filter.standIn ^ (organization.map { FeedCursor.filter([$0.lowercased]) } ?? 0)
        guard let text else {
            (self.organization, key) = (organization ?? UUID.least, nil)
            return
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard [3, 6].contains(parts.count), parts[0] == "g1", let place = UUID(parsing: parts[1]),
            let made = UInt64(parts[2], radix: 36)
        else { throw .foreignCursor }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        self.organization = place
        guard parts.count == 6 else {
            key = nil
            return
        }
        guard let status = Int16(parts[5]), EntityType.isValidName(parts[3]), parts[4].utf8.count <= 64 else {
            throw .foreignCursor
        }
        key = FailureGroup.Key(entityType: parts[3], errorCode: parts[4], responseStatus: status)
    }

    func next(_ organization: UUID, _ key: FailureGroup.Key?) -> String {
        let start = ["g1", organization.lowercased, String(filter, radix: 36)]
        let end = key.map { [$0.entityType, $0.errorCode, String($0.responseStatus)] } ?? []
        return (start + end).joined(separator: ".")
    }
}

/// A place among the stuck mutations, newest first, bound to the filter that it was made with.
struct FailureCursor {
    let place: FailurePosition
    private let filter: UInt64

    init(_ text: String?, _ filter: FailureFilter, _ organization: UUID?) throws(Problem) {
        self.filter = filter.standIn ^ (organization.map { FeedCursor.filter([$0.lowercased]) } ?? 0)
        guard let text else {
            place = .newest
            return
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 6, parts[0] == "s1", let moment = Int64(parts[1], radix: 36),
            let organization = UUID(parsing: parts[2]), let user = UUID(parsing: parts[3]),
            let id = UUID(parsing: parts[4]), let made = UInt64(parts[5], radix: 36)
        else { throw .foreignCursor }
        guard made == self.filter else { throw .cursorOfAnotherFilter }
        place = FailurePosition(at: Timestamp(microseconds: moment), organization: organization, user: user, id: id)
    }

    func next(_ place: FailurePosition) -> String {
        [
            "s1", String(place.at.microseconds, radix: 36), place.organization.lowercased, place.user.lowercased,
            place.id.lowercased, String(filter, radix: 36),
        ].joined(separator: ".")
    }
}

/// A place among the lanes in which nothing runs, bound to the filter that it was made with.
struct StoppedLaneCursor {
    let place: (at: Timestamp, organization: UUID, user: UUID)
    private let filter: UInt64

    /// - Parameter now: behind which those are that wait.
    init(_ text: String?, _ state: StoppedLanes.State, _ organization: UUID?, now: Timestamp) throws(Problem) {
        filter = FeedCursor.filter([state.rawValue] + [organization?.lowercased].compactMap(\.self))
        guard let text else {
            place =
                switch state {
                case .halted: (now, organization ?? .least, .least)
                case .waiting: (now, organization ?? .greatest, .greatest)
                }
            return
        }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 5, parts[0] == "k1", let moment = Int64(parts[1], radix: 36),
            let place = UUID(parsing: parts[2]), let user = UUID(parsing: parts[3]),
            let made = UInt64(parts[4], radix: 36)
        else { throw .foreignCursor }
        guard made == filter else { throw .cursorOfAnotherFilter }
        // a lane whose moment has passed since then runs, or is listed among those that are due next
        self.place = (max(Timestamp(microseconds: moment), now), organization ?? place, user)
    }

    func next(_ lane: StoppedLanes.Lane) -> String {
        [
            "k1", String(lane.readyAt?.microseconds ?? 0, radix: 36), lane.key.organization.lowercased,
            lane.key.user.lowercased, String(filter, radix: 36),
        ].joined(separator: ".")
    }
}

/// The place of a mutation among the stuck ones.
struct FailurePosition: Sendable, Hashable {
    let at: Timestamp
    let organization: UUID
    let user: UUID
    let id: UUID

    /// Before all of them, newest first.
    static let newest = FailurePosition(
        at: Timestamp(microseconds: .max),
        organization: .greatest,
        user: .greatest,
        id: .greatest
    )
}
