/// The elements of an array, in order. Iterating allocates nothing.
package struct JSONElements: Sequence, Sendable {
    let storage: JSONStorage
    let index: Int

    package struct Iterator: IteratorProtocol, Sendable {
        let storage: JSONStorage
        var index: Int
        let end: Int

        package mutating func next() -> JSONValue? {
            guard index < end else { return nil }
            let element = index
            index = storage.nodes[element].after
            return JSONValue(storage: storage, index: element)
        }
    }

    package func makeIterator() -> Iterator {
        Iterator(storage: storage, index: index + 1, end: storage.nodes[index].after)
    }

    package var isEmpty: Bool { storage.nodes[index].after == index + 1 }

    /// How many there are, found by stepping over them.
    package var count: Int { reduce(0) { count, _ in count + 1 } }
}

extension JSONValue {
    /// The elements of an array; nil for any other type.
    package var elements: JSONElements? {
        node.isArray ? JSONElements(storage: storage, index: index) : nil
    }
}
