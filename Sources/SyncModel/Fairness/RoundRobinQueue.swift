/// Lines of elements whose owners take turns.
struct RoundRobinQueue<Owner: Hashable & Sendable, Element> {
    private var lines: [Owner: FIFOQueue<Element>] = [:]
    /// Owners of a line, in the order of their turns.
    private var order = FIFOQueue<Owner>()

    /// The number of owners with a line.
    var ownerCount: Int { lines.count }
    var isEmpty: Bool { lines.isEmpty }
    /// The owner whose turn it is.
    var owner: Owner? { order.first }
    /// The first element of that owner.
    var next: Element? { owner.flatMap { lines[$0]?.first } }

    /// Appends an element to its owner's queue; an owner without a queue comes last.
    mutating func append(_ element: Element, of owner: Owner) {
        if lines[owner] == nil { order.append(owner) }
        lines[owner, default: FIFOQueue()].append(element)
    }

    /// Takes out ``next``, and ends the turn.
    mutating func popNext() -> Element? {
        guard let owner = order.popFirst(), let element = lines[owner]?.popFirst() else { return nil }
        if lines[owner]?.isEmpty ?? true { lines[owner] = nil } else { order.append(owner) }
        return element
    }

    /// Ends the turn without taking an element: the owner comes last.
    mutating func pass() {
        guard let owner = order.popFirst() else { return }
        order.append(owner)
    }

    /// Turns stay in order.
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
