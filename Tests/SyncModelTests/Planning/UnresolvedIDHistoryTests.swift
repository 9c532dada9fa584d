import Foundation
import Testing

@testable import SyncModel

@Suite struct UnresolvedIDHistoryTests {
    @Test func `remembers the last ids`() throws {
        let ids = (0..<UnresolvedIDHistory.limit + 5).map { _ in UUID() }
        let few = try #require(UnresolvedIDHistory().adding(ids.prefix(3).reversed()))
        #expect(few.stored.count == 18 && ids.prefix(3).allSatisfy(few.contains) && !few.contains(ids[3]))
        #expect(UnresolvedIDHistory(stored: few.stored) == few)
        // known ids change nothing
        #expect(few.adding(ids.prefix(3)) == nil && UnresolvedIDHistory().adding([]) == nil)
        let all = try #require(few.adding(ids.reversed()))
        #expect(all.stored.count == UnresolvedIDHistory.limit * 6)
        #expect(ids.suffix(UnresolvedIDHistory.limit).allSatisfy(all.contains))
        #expect(!all.contains(ids[0]) && !UnresolvedIDHistory().contains(ids[0]))
    }

    /// Sequential ids differ in one byte, at any position.
    @Test func `distinguishes sequential ids`() {
        for place in 0..<16 {
            let ids = (0..<20).map { number in
                var uuid = UUID().uuid
                withUnsafeMutableBytes(of: &uuid) { bytes in
                    for index in bytes.indices { bytes[index] = index == place ? UInt8(number) : 0x40 }
                }
                return UUID(uuid: uuid)
            }
            let some = UnresolvedIDHistory().adding(ids.prefix(10))
            #expect(ids.map { some?.contains($0) == true } == ids.indices.map { $0 < 10 })
        }
    }
}
