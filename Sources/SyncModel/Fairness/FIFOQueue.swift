/// A queue that is first in, first out.
struct FIFOQueue<Element> {
    private var elements: [Element?] = []
    private var start = 0

    var count: Int { elements.count - start }
    var isEmpty: Bool { start == elements.count }
    var first: Element? { isEmpty ? nil : elements[start] }

    mutating func append(_ element: Element) {
        elements.append(element)
    }

    mutating func popFirst() -> Element? {
        guard let element = first else { return nil }
        elements[start] = nil
        start += 1
        // taken elements are removed only occasionally; therefore each element is moved about once
        if start > 32, start * 2 > elements.count {
            elements.removeFirst(start)
            start = 0
        }
        return element
    }

    /// Inserts elements at the front of the queue, in their given order.
    mutating func prepend(_ others: [Element]) {
        guard !others.isEmpty else { return }
        if start >= others.count {
            start -= others.count
            for (offset, element) in others.enumerated() { elements[start + offset] = element }
        } else {
            elements = others + elements[start...].compactMap(\.self)
            start = 0
        }
    }

    mutating func remove(where fits: (Element) -> Bool) -> [Element] {
        var removed: [Element] = []
        var kept: [Element?] = []
        for element in elements[start...].compactMap(\.self) {
            if fits(element) { removed.append(element) } else { kept.append(element) }
        }
        guard !removed.isEmpty else { return [] }
        elements = kept
        start = 0
        return removed
    }
}

extension FIFOQueue: Sendable where Element: Sendable {}

/// A queue of elements for each owner. The owners take turns.
struct RoundRobinQueue<Owner: Hashable & Sendable, Element> {
    private var lines: [Owner: FIFOQueue<Element>] = [:]
    /// The owners that have a queue, in the order of their turns.
    private var order = FIFOQueue<Owner>()

    /// The number of owners that have a queue.
    var ownerCount: Int { lines.count }
    var isEmpty: Bool { lines.isEmpty }
    /// The owner whose turn it is.
    var owner: Owner? { order.first }
    /// The first element of the owner whose turn it is.
    var next: Element? { owner.flatMap { lines[$0]?.first } }

    /// Appends an element to its owner's queue. If the owner had no queue, it gets the last turn.
    mutating func append(_ element: Element, of owner: Owner) {
        if lines[owner] == nil { order.append(owner) }
        lines[owner, default: FIFOQueue()].append(element)
    }

    /// Removes and returns ``next``, and ends the owner's turn.
    mutating func popNext() -> Element? {
        guard let owner = order.popFirst(), let element = lines[owner]?.popFirst() else { return nil }
        if lines[owner]?.isEmpty ?? true { lines[owner] = nil } else { order.append(owner) }
        return element
    }

    /// Ends the owner's turn without taking an element. The owner gets the last turn.
    mutating func pass() {
        guard let owner = order.popFirst() else { return }
        order.append(owner)
    }

    /// Removes and returns the elements that match. The order of the turns stays the same.
    mutating func remove(where fits: (Element) -> Bool) -> [Element] {
        var removed: [Element] = []
        for owner in Array(lines.keys) {
            removed += lines[owner]?.remove(where: fits) ?? []
            if lines[owner]?.isEmpty ?? true { lines[owner] = nil }
        }
        if !removed.isEmpty { _ = order.remove { lines[$0] == nil } }
        return removed
    }
}

extension RoundRobinQueue: Sendable where Element: Sendable {}
