/// Finds numbers that a device has not given yet.
public struct FreeNumbers: Sendable {
    /// How many numbers in use are looked at beyond those that could be needed: gaps behind them are left alone.
    public static let slack = 1_000

    private let base: Int64?
    private let taken: [Int64]
    private let isWhole: Bool
    private let highest: Int64?

    /// What is known of one type's numbers on one device.
    ///
    /// - Parameters:
    ///   - base: where the device counts on; nil: behind its highest.
    ///   - taken: numbers in use from `base` on, upwards.
    ///   - isWhole: whether these are all from `base` on.
    ///   - highest: the highest number in use; nil for none.
    public init(from base: Int64?, taken: [Int64] = [], isWhole: Bool = true, highest: Int64?) {
        self.base = base
        self.taken = taken
        self.isWhole = isWhole
        self.highest = highest
    }

    /// The number behind the highest, at least 1; nil where there is no such 64-bit integer.
    public static func next(after highest: Int64?) -> Int64? {
        guard let highest else { return 1 }
        return highest == .max ? nil : max(1, highest + 1)
    }

    /// Where the device counts on; nil where there is no number left.
    public var start: Int64? { base ?? Self.next(after: highest) }

    /// Whether a number is certain to be free.
    func contains(_ number: Int64) -> Bool {
        guard let start, number >= start, !isTaken(number) else { return false }
        return isWhole || taken.last.map { number < $0 } ?? false
    }

    private func isTaken(_ number: Int64) -> Bool {
        var range = taken.startIndex..<taken.endIndex
        while !range.isEmpty {
            let middle = range.lowerBound + range.count / 2
            if taken[middle] == number { return true }
            range = taken[middle] < number ? middle + 1..<range.upperBound : range.lowerBound..<middle
        }
        return false
    }

    /// The same without some numbers, which are given upwards.
    func avoiding(_ numbers: [Int64]) -> FreeNumbers {
        guard !numbers.isEmpty else { return self }
        // behind what was looked at, counting goes on behind the highest
        let known = isWhole ? numbers : numbers.filter { number in taken.last.map { number < $0 } ?? false }
        return FreeNumbers(
            from: start,
            taken: Set(taken).union(known).filter { number in start.map { number >= $0 } ?? true }.sorted(),
            isWhole: isWhole,
            highest: [highest, numbers.last].compactMap(\.self).max()
        )
    }

    /// The first so many numbers that are not in use; nil where there are not so many.
    public func first(_ count: Int) -> [Int64]? {
        var numbers: [Int64] = []
        numbers.reserveCapacity(count)
        var candidate = start
        var isWhole = isWhole
        var place = 0
        while numbers.count < count {
            guard let number = candidate else { return nil }
            if place < taken.count, taken[place] <= number {
                if taken[place] == number { candidate = Self.successor(of: number) }
                place += 1
            } else if place == taken.count, !isWhole {
                candidate = highest.map { $0 < number ? number : Self.successor(of: $0) } ?? number
                isWhole = true
            } else {
                numbers.append(number)
                candidate = Self.successor(of: number)
            }
        }
        return numbers
    }

    private static func successor(of number: Int64) -> Int64? { number == .max ? nil : number + 1 }
}
