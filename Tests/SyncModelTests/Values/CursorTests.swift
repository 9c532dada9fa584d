import Foundation
import Testing

@testable import SyncModel

@Suite struct CursorTests {
    @Test func `encoded cursors of events decode to themselves`() {
        for _ in 0..<500 {
            let last: [LanePlace.Last?] = [
                nil, .mutation(position: Int64.random(in: 0...Int64.max)),
                .mapping(clientID: UUID(), entityType: ["task", "a-b_c-1"].randomElement() ?? ""),
            ]
            let place = LanePlace(
                change: Int64.random(in: 0...Int64.max),
                last: last.randomElement() ?? nil
            )
            let cursor = EventCursor(
                epoch: Int64.random(in: 0...Int64.max),
                feed: Int64.random(in: 0...Int64.max),
                place: place
            )
            #expect(EventCursor(cursor.text) == cursor, "\(cursor.text)")
            let mapping = MappingCursor(epoch: cursor.epoch, filter: UInt64.random(in: 0...UInt64.max), place: place)
            #expect(MappingCursor(mapping.text) == mapping, "\(cursor.text)")
            #expect(EventCursor(mapping.text) == nil && MappingCursor(cursor.text) == nil)
        }
    }
}
