/// Lines of elements whose owners take turns.
struct Turns<Owner: Hashable & Sendable, Element> {
    private var lines: [Owner: Line<Element>] = [:]
    /// Whoever has a line, in the order of their turns.
    private var order = Line<Owner>()

    /// How many have a line.
    var ownerCount: Int { lines.count }
    var isEmpty: Bool { lines.isEmpty }
    /// Whose turn it is.
    var owner: Owner? { order.first }
    /// The first element of whose turn it is.
    var next: Element? { owner.flatMap { lines[$0]?.first } }

    /// Puts an element at the end of its owner's line; who had none comes last.
    mutating func append(_ element: Element, of owner: Owner) {
        if lines[owner] == nil { order.append(owner) }
        lines[owner, default: Line()].append(element)
    }

    /// Takes out the first element of whose turn it is, and ends the turn.
    mutating func popNext() -> Element? {
        guard let owner = order.popFirst(), let element = lines[owner]?.popFirst() else { return nil }
        if lines[owner]?.isEmpty ?? true { lines[owner] = nil } else { order.append(owner) }
        return element
    }

    /// Whose turn it is comes last.
    mutating func pass() {
        guard let owner = order.popFirst() else { return }
        order.append(owner)
    }

    /// Takes out every element that fits; turns stay in order.
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

extension Turns: Sendable where Element: Sendable {}
