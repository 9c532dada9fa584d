extension JSONValue {
    /// The value that a JSON Pointer (RFC 6901) leads to from here.
    ///
    /// Nil if it leads nowhere or the pointer is malformed.
    public func value(at pointer: String) -> JSONValue? {
        guard let steps = JSONPointer.steps(of: pointer) else { return nil }
        var value = self
        for step in steps {
            guard let next = value.child(at: step) else { return nil }
            value = next
        }
        return value
    }

    private func child(at step: [UInt8]) -> JSONValue? {
        if node.isObject { return member(named: step) }
        if node.isArray { return element(numbered: step) }
        return nil
    }

    private func member(named name: [UInt8]) -> JSONValue? {
        let nodes = storage.nodes
        let end = node.after
        let found = storage.bytes.withUnsafeBufferPointer { bytes in
            name.withUnsafeBufferPointer { name -> Int? in
                var member = index + 1
                while member < end {
                    if nodes[member].withUnescaped(in: bytes, { $0.isEqual(to: name) }) { return member + 1 }
                    member = nodes[member + 1].after
                }
                return nil
            }
        }
        return found.map { JSONValue(storage: storage, index: $0) }
    }

    private func element(numbered digits: [UInt8]) -> JSONValue? {
        let zero = UInt8(ascii: "0")
        guard let first = digits.first, digits.count <= 10, digits.allSatisfy({ $0 >= zero && $0 <= zero + 9 }),
            first != zero || digits.count == 1
        else { return nil }
        let number = digits.reduce(0) { $0 * 10 + Int($1 - zero) }
        let end = node.after
        var element = index + 1
        for _ in 0..<number where element < end { element = storage.nodes[element].after }
        return element < end ? JSONValue(storage: storage, index: element) : nil
    }
}
