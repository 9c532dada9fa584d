import SyncModel
import Testing

@Suite struct ActiveWorkerCountTests {
    private var count = ActiveWorkerCount(most: 4, limits: GroupLimits())

    @Test mutating func `little load goes to two workers`() {
        #expect(count.count == 2)
        for _ in 0..<399 { count.add(1) }
        #expect(count.count == 2)
        #expect(ActiveWorkerCount(most: 1, limits: GroupLimits()).count == 1)
    }

    @Test mutating func `more workers take part as load grows, up to their number`() {
        for _ in 0..<8 { count.add(50) }
        #expect(count.count == 3)
        for _ in 0..<100 { count.add(50) }
        #expect(count.count == 4)
    }

    @Test mutating func `workers stay between two groups, and become idle after many`() {
        for _ in 0..<32 { count.add(50) }
        #expect(count.count == 4)
        count.remove(1_600)
        count.add(50)
        #expect(count.count == 4)
        for _ in 0..<400 {
            count.remove(50)
            count.add(50)
        }
        #expect(count.count == 2)
    }
}
