/// A line: first come, first served.
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
        // only from time to time, so that each element is moved once
        if start > 32, start * 2 > elements.count {
            elements.removeFirst(start)
            start = 0
        }
        return element
    }

    /// Inserts elements before all others, in their order.
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
