import Foundation
import SyncModel
import Testing

@Suite struct MappingCursorTests {
    private static let id = UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255))

    @Test(arguments: [
        LanePlace(change: 0), LanePlace(change: .max),
        LanePlace(change: 7, last: .mapping(clientID: id, entityType: "task")),
        LanePlace(change: 7, last: .mapping(clientID: id, entityType: "a-b_c-0")),
    ])
    func `an encoded cursor decodes to itself`(_ place: LanePlace) {
        for (epoch, filter) in [(Int64(0), UInt64(0)), (.max, .max), (-5, 77)] {
            let cursor = MappingCursor(epoch: epoch, filter: filter, place: place)
            // Sluice writes no negative epoch
            #expect(MappingCursor(cursor.text) == (epoch < 0 ? nil : cursor), "\(cursor.text)")
        }
    }

    @Test(arguments: [
        "", "i1", "i1-", "i1-1-0", "i1-1-0-", "i1--0-0", "i1-1--0", "i2-1-0-0", "f1-1-0-0-0", "I1-1-0-0", "i1-1-0--1",
        "i1-1-0-0-", "i1-1-0-0-i", "i1-1-0-0-x-1", "i1-1-0-0-i-0102030405060708090a0b0c0d0e0fff",
        "i1-1-0-0-i-0102030405060708090a0b0c0d0e0fff-", "i1-1-0-0-i-0102030405060708090a0b0c0d0e0fff-Task",
        "i1-1-0-0-i-0102030405060708090a0b0c0d0e0f-task", "i1-1-0-0-i-0102030405060708090a0b0c0d0e0fgg-task",
        "i1-1-0-zzzzzzzzzzzzzzzzzz", "i1-1-zzzzzzzzzzzzzzzzzz-0", "i1-1-0-0 ", "i1-1-0-\u{661}",
    ])
    func `refuses other texts as cursors`(_ text: String) {
        #expect(MappingCursor(text) == nil)
    }
}
