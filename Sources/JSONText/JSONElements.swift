/// The elements of an array, in order. Iterating allocates nothing.
public struct JSONElements: Sequence, Sendable {
    let storage: JSONStorage
    let index: Int

    public struct Iterator: IteratorProtocol, Sendable {
        let storage: JSONStorage
        var index: Int
        let end: Int

        public mutating func next() -> JSONValue? {
            guard index < end else { return nil }
            let element = index
            index = storage.nodes[element].after
            return JSONValue(storage: storage, index: element)
        }
    }

    public func makeIterator() -> Iterator {
        Iterator(storage: storage, index: index + 1, end: storage.nodes[index].after)
    }

    public var isEmpty: Bool { storage.nodes[index].after == index + 1 }

    /// Counted by stepping over the elements.
    public var count: Int { reduce(0) { count, _ in count + 1 } }
}

extension JSONValue {
    /// The elements of an array; nil for any other type.
    public var elements: JSONElements? {
        node.isArray ? JSONElements(storage: storage, index: index) : nil
    }
}
