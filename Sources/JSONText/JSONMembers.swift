/// The members of an object, in document order, duplicates included. Iterating allocates nothing.
public struct JSONMembers: Sequence, Sendable {
    let storage: JSONStorage
    let index: Int

    public struct Iterator: IteratorProtocol, Sendable {
        let storage: JSONStorage
        var index: Int
        let end: Int

        public mutating func next() -> (name: JSONName, value: JSONValue)? {
            guard index < end else { return nil }
            let name = index
            index = storage.nodes[name + 1].after
            return (JSONName(storage: storage, index: name), JSONValue(storage: storage, index: name + 1))
        }
    }

    public func makeIterator() -> Iterator {
        Iterator(storage: storage, index: index + 1, end: storage.nodes[index].after)
    }

    /// Passes name and value of each. Unlike a loop it counts no references to the text.
    public func forEach(_ body: (JSONName, JSONValue) -> Void) {
        let end = storage.nodes[index].after
        var member = index + 1
        while member < end {
            body(JSONName(storage: storage, index: member), JSONValue(storage: storage, index: member + 1))
            member = storage.nodes[member + 1].after
        }
    }

    public var isEmpty: Bool { storage.nodes[index].after == index + 1 }
}

extension JSONValue {
    /// The members of an object; nil for any other type.
    public var members: JSONMembers? {
        node.isObject ? JSONMembers(storage: storage, index: index) : nil
    }

    /// The first member with that name, found by linear search.
    ///
    /// Nil also for other types.
    public subscript(name: StaticString) -> JSONValue? {
        let node = node
        guard node.isObject else { return nil }
        let nodes = storage.nodes
        let found = storage.bytes.withUnsafeBufferPointer { bytes -> Int? in
            var member = index + 1
            while member < node.after {
                if nodes[member].equals(name, in: bytes) { return member + 1 }
                member = nodes[member + 1].after
            }
            return nil
        }
        return found.map { JSONValue(storage: storage, index: $0) }
    }
}
