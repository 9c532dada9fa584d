import Foundation
import SyncModel
import Testing

@Suite struct SuccessorTests {
    @Test(arguments: [
        ("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"),
        ("00000000-0000-0000-0000-0000000000FF", "00000000-0000-0000-0000-000000000100"),
        ("0FFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "10000000-0000-0000-0000-000000000000"),
        ("FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFE", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF"),
    ]) func `the next ID is larger by one`(id: String, next: String) throws {
        #expect(try #require(UUID(uuidString: id)).successor?.uuidString == next)
    }

    @Test func `the last ID has no successor`() throws {
        #expect(try #require(UUID(uuidString: "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF")).successor == nil)
    }
}
