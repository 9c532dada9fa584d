internal import CSimdJSON

/// A member, identified by its unescaped name.
struct MemberKey {
    /// The name's first eight bytes, as a number. These numbers have the same order as the bytes.
    let prefix: UInt64
    let name: UnsafeBufferPointer<UInt8>
    let node: Int

    init(name: UnsafeBufferPointer<UInt8>, node: Int) {
        var prefix: UInt64 = 0
        if let start = name.baseAddress, name.count >= 8 {
            prefix = UInt64(bigEndian: UnsafeRawPointer(start).loadUnaligned(as: UInt64.self))
        } else {
            for byte in name { prefix = prefix << 8 | UInt64(byte) }
            prefix = name.isEmpty ? 0 : prefix << (8 * UInt64(8 - name.count))
        }
        self.prefix = prefix
        self.name = name
        self.node = node
    }

    /// Compares the names by their bytes. Returns a negative number, 0, or a positive number.
    func order(against other: MemberKey) -> Int {
        if prefix != other.prefix { return prefix < other.prefix ? -1 : 1 }
        return name.order(against: other.name)
    }

    /// Orders members by the bytes of their names, and members with equal names by their order in the text.
    static func precedes(_ left: MemberKey, _ right: MemberKey) -> Bool {
        let order = left.order(against: right)
        return order != 0 ? order < 0 : left.node < right.node
    }
}

/// A stack of members, in which the members of each object are sorted.
///
/// Names without escapes are read directly from the text, so the text must outlive the stack. Names with escapes are
/// unescaped into separate memory, which is not larger than the value that contains the names.
struct MemberKeys: ~Copyable {
    private let source: JSONSource
    private let unescapedCapacity: Int
    private var unescaped: UnsafeMutableBufferPointer<UInt8>?
    private var unescapedCount = 0
    private(set) var stack: [MemberKey] = []

    /// Creates a stack for the objects within one value. Each object may be pushed only once.
    init(within value: Int, of source: JSONSource) {
        self.source = source
        self.unescapedCapacity = source[value].range.count
        stack.reserveCapacity(16)
    }

    deinit { unescaped?.deallocate() }

    /// Pushes the members of an object, sorts them, and returns their range on the stack.
    mutating func push(_ object: Int) -> Range<Int> {
        let base = stack.count
        let end = source[object].after
        var member = object + 1
        while member < end {
            stack.append(MemberKey(name: name(of: member), node: member))
            member = source[member + 1].after
        }
        sort(from: base)
        return base..<stack.count
    }

    /// Removes the members that were pushed last.
    mutating func pop(_ range: Range<Int>) {
        stack.removeLast(range.count)
    }

    private mutating func name(of member: Int) -> UnsafeBufferPointer<UInt8> {
        let node = source[member]
        let content = node.content(in: source.bytes)
        guard node.hasEscapes else { return content }
        let memory = unescaped ?? .allocate(capacity: unescapedCapacity)
        unescaped = memory
        let free = UnsafeMutableBufferPointer(rebasing: memory[unescapedCount...])
        let count = csj_unescape(content.baseAddress, content.count, free.baseAddress)
        unescapedCount += count
        return UnsafeBufferPointer(rebasing: free[..<count])
    }

    private mutating func sort(from base: Int) {
        stack.withUnsafeMutableBufferPointer { stack in
            var members = UnsafeMutableBufferPointer(rebasing: stack[base...])
            // Most objects are small, and many are already sorted.
            if members.count <= 24 {
                members.sortByInsertion()
            } else {
                members.sort(by: MemberKey.precedes)
            }
        }
    }
}

extension UnsafeMutableBufferPointer<MemberKey> {
    fileprivate func sortByInsertion() {
        for index in indices.dropFirst() {
            let key = self[index]
            var hole = index
            while hole > 0, MemberKey.precedes(key, self[hole - 1]) {
                self[hole] = self[hole - 1]
                hole -= 1
            }
            self[hole] = key
        }
    }
}
