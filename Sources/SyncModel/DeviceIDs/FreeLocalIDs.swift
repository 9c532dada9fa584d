/// Finds local ids that a device has not assigned to an entity yet.
public struct FreeLocalIDs: Sendable {
    /// The number of used local ids that are read in addition to the required count.
    ///
    /// If a free local id lies between used local ids that were not read, it is not found, and remains free.
    public static let slack = 1_000

    private let base: Int64?
    private let taken: [Int64]
    private let isWhole: Bool
    private let highest: Int64?

    /// Creates the free local ids of one entity type on one device.
    ///
    /// - Parameters:
    ///   - base: the next local id that the device would assign; nil to use the local id after `highest`.
    ///   - taken: the local ids in use from `base` on, in ascending order.
    ///   - isWhole: whether `taken` contains all local ids in use from `base` on.
    ///   - highest: the highest local id in use; nil if no local id is in use.
    public init(from base: Int64?, taken: [Int64] = [], isWhole: Bool = true, highest: Int64?) {
        self.base = base
        self.taken = taken
        self.isWhole = isWhole
        self.highest = highest
    }

    /// The local id after the highest local id, at least 1; nil if no 64-bit integer is left.
    public static func next(after highest: Int64?) -> Int64? {
        guard let highest else { return 1 }
        return highest == .max ? nil : max(1, highest + 1)
    }

    /// The next local id that the device would assign; nil if no local id is left.
    public var start: Int64? { base ?? Self.next(after: highest) }

    /// Whether a local id is known to be free.
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

    /// Returns these free local ids without `numbers`, which must be in ascending order.
    func avoiding(_ numbers: [Int64]) -> FreeLocalIDs {
        guard !numbers.isEmpty else { return self }
        // beyond the local ids that were read, only local ids above the highest local id in use count as free
        let known = isWhole ? numbers : numbers.filter { number in taken.last.map { number < $0 } ?? false }
        return FreeLocalIDs(
            from: start,
            taken: Set(taken).union(known).filter { number in start.map { number >= $0 } ?? true }.sorted(),
            isWhole: isWhole,
            highest: [highest, numbers.last].compactMap(\.self).max()
        )
    }

    /// The first `count` free local ids; nil if fewer local ids are free.
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
