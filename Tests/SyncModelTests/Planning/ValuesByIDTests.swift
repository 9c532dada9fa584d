import Foundation
import Testing

@testable import SyncModel

@Suite struct ValuesByIDTests {
    @Test func `all values of an id keep their order`() {
        var values = ValuesByID<Int>(capacity: 2)
        let (one, many, none) = (UUID(), UUID(), UUID())
        values.add(1, of: many)
        #expect(values.all(of: many) == [1])
        values.add(2, of: one)
        values.add(3, of: many)
        values.add(4, of: many)
        #expect([many, one, none].map { values.all(of: $0) } == [[1, 3, 4], [2], []])
        for id in [many, one, none] {
            var passed: [Int] = []
            values.forEach(of: id) { passed.append($0) }
            #expect(passed == values.all(of: id))
        }
    }
}
