package import FoundationEssentials
import JSONText
package import SyncModel
package import SyncStore

/// Frames of an event stream (WHATWG HTML, 9.2.5).
package enum EventFrame {
    /// The time for which a client must wait before it reconnects, in milliseconds.
    package static let retry = 2_000

    /// Returns the first frame, with a cursor from which the client can resume even if no event follows.
    ///
    /// Clients do not treat this frame as an event, because it has no data.
    package static func opening(_ cursor: EventCursor) -> [UInt8] {
        Array("retry: \(retry)\nid: \(cursor.text)\n\n".utf8)
    }

    /// A comment, which shows the client, the gateway and proxies that the connection still works.
    package static let keepAlive = Array(": keep-alive\n\n".utf8)

    package static func event(_ event: EventReader.Event) -> [UInt8] {
        switch event.subject {
        case .mutation(let record): frame("mutation", event.cursor, data(record))
        case .mapping(let mapping): frame("id_mapping", event.cursor, mapping.json())
        }
    }

    /// Returns the JSON of an event about a mutation: the members of a result, and some members of the mutation.
    private static func data(_ record: MutationRecord) -> [UInt8] {
        JSONWriter.object(capacity: 768) { writer in
            var contents = AnswerContents(room: .max)
            record.writeResultMembers(replayed: nil, &contents, at: "", to: &writer)
            writer.member("device_id", record.deviceID)
            writer.member("operation", record.operation.rawValue)
            writer.member("entity_type", record.entity.type)
            writer.member("accepted_at", record.acceptedAt.rfc3339)
            writer.member("synced_at", record.syncedAt?.rfc3339)
        }
    }

    /// Returns a hint that the caller can pull changes of the feed, up to the position in the cursor.
    ///
    /// - Parameter user: the user of the cursor.
    package static func changes(_ cursor: EventCursor, of user: UUID) -> [UInt8] {
        let epoch = LaneEpoch.mixed(cursor.epoch, user)
        let feed = FeedCursor(epoch: epoch, position: cursor.feed, head: cursor.feed)
        return frame("changes", cursor, Array(#"{"feed":"\#(feed.text)"}"#.utf8))
    }

    /// Writes one frame. Documents are written unchanged, including line breaks; each line is a separate `data` field.
    private static func frame(_ name: StaticString, _ cursor: EventCursor, _ data: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(data.count + 128)
        bytes += "event: \(name)\nid: \(cursor.text)\ndata: ".utf8
        for byte in data {
            switch byte {
            case UInt8(ascii: "\n"): bytes += "\ndata: ".utf8
            // a carriage return would end the line; in JSON it can only be white space between tokens
            case UInt8(ascii: "\r"): bytes.append(UInt8(ascii: " "))
            default: bytes.append(byte)
            }
        }
        bytes += "\n\n".utf8
        return bytes
    }
}

/// One listener's turn: writes a few pages of events, a hint, or a keep-alive.
struct EventStreamBatch {
    /// The maximum number of pages of one turn. More pages would delay the other listeners.
    private static let pages = 8

    let store: Store
    let authenticator: Authenticator

    /// Does the work. Afterwards, `work` contains the remaining part.
    ///
    /// - Returns: whether all work is done.
    /// - Throws: ``AccessRevoked``, `EventSubscriber.BudgetExhausted`, or the store's problems.
    func take(_ work: inout SubscriberState.Work, _ subscriber: EventSubscriber) async throws -> Bool {
        // of all reasons to end a stream, only the organization's suspension is checked in each turn; `EventHub` checks
        // the other reasons at intervals
        do throws(Problem) {
            try await authenticator.activeOrganization(subscriber.caller.organization.id)
        } catch {
            if error.code.status == 403 { throw AccessRevoked() }
            throw error
        }
        if work.isFirst {
            if let feed = try await store.events.feedChanges(after: work.cursor, for: subscriber.interest) {
                work.changes.feedMoved(to: feed)
            }
            work.isFirst = false
        }
        var hasMore = work.changes.lane
        for _ in 0..<Self.pages where hasMore {
            guard try await subscriber.takesMore() else { return false }
            let page = try await store.events.page(after: work.cursor, of: subscriber.lane)
            hasMore = page.hasMore
            work.cursor = page.next
            guard !page.events.isEmpty else { continue }
            try subscriber.write(page.events.flatMap { EventFrame.event($0) }, upTo: page.next)
            work.keepsAlive = false
        }
        if hasMore { return false }
        if let feed = work.changes.feed, feed > work.cursor.feed {
            work.cursor.feed = feed
            try subscriber.write(EventFrame.changes(work.cursor, of: subscriber.lane.user), upTo: work.cursor)
            work.keepsAlive = false
        }
        if work.keepsAlive { try subscriber.write(EventFrame.keepAlive) }
        return true
    }
}
