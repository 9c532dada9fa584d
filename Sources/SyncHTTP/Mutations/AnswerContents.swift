import JSONText
import SyncModel

/// Decides which entities, bodies of upstreams and lists of blockers one response contains.
///
/// This bounds the size of the response.
///
/// A response contains an entity's `current` once. A later error about the same state has a pointer to it
/// (`current_at`). An error about another state, or without room left in the response, has a mark (`current_omitted`).
package struct AnswerContents {
    /// The part of an error that a result contains.
    package enum Shown {
        case whole
        case cut([UInt8])
        /// Not even the error itself fits.
        case nothing
    }

    /// Bytes for which the response has room.
    private var room: Int
    /// The place of an entity in the response, and the state at that place.
    private var places: [EntityKey: (place: String, state: [UInt8])] = [:]

    /// - Parameter room: bytes of contents that are larger than ``WorkBounds/small``.
    package init(room: Int = WorkBounds.answer) {
        self.room = room
    }

    /// Decides about an error, a problem object as JSON.
    ///
    /// - Parameter pointer: the error's place in the response (RFC 6901).
    package mutating func show(error: [UInt8], at pointer: @autoclosure () -> String) -> Shown {
        guard let outline = CurrentOutline(error) else { return takes(error.count) ? .whole : .nothing }
        if let first = places[outline.key] {
            return .cut(CurrentOutline.cut(error, place: first.state == outline.state ? first.place : nil))
        }
        guard outline.isWhole, takes(error.count) else { return .cut(CurrentOutline.cut(error, place: nil)) }
        places[outline.key] = (pointer() + "/current", outline.state)
        return .whole
    }

    /// Whether the response has room for a value; then the room is used.
    package mutating func takes(_ bytes: Int) -> Bool {
        guard bytes > WorkBounds.small else { return true }
        guard bytes <= room else { return false }
        room -= bytes
        return true
    }
}

extension MutationRecord {
    /// The bytes of the mutation's large members in a response, in addition to its names and times.
    package var contentBytes: Int {
        [error?.count ?? 0, responseBody?.count ?? 0, blockerBytes].filter { $0 > WorkBounds.small }.reduce(0, +)
    }
}
