public import JSONText

/// A text that is compared and ordered by its bytes, as in PostgreSQL's collation "C".
///
/// `String` treats canonically equivalent texts as equal, such as `K` and the Kelvin sign. Use this type if an external
/// text is a dictionary's key, a set's element or an associated value of an enumeration.
@frozen
public struct ByteExactString: Sendable, Hashable, Comparable, CustomStringConvertible {
    public let string: String

    public init(_ string: some StringProtocol) { self.string = String(string) }

    @inlinable
    public init(_ string: String) { self.string = string }

    public var description: String { string }

    public static func == (left: ByteExactString, right: ByteExactString) -> Bool {
        left.string.hasSameBytes(as: right.string)
    }

    public static func < (left: ByteExactString, right: ByteExactString) -> Bool { left.string < right.string }

    public func hash(into hasher: inout Hasher) { string.hashBytes(into: &hasher) }
}

extension ByteExactString: ExpressibleByStringLiteral {
    public init(stringLiteral text: String) { self.init(text) }
}

extension ByteExactString {
    /// Reads UTF-8 with percent-encoded bytes (RFC 3986), for example from a header.
    ///
    /// Nil if the text is not valid.
    public init?(percentEncoded text: some StringProtocol) {
        let bytes = Array(text.utf8)
        guard PercentEncoding.isWellFormed(bytes),
            let decoded = String(validating: PercentEncoding.decoded(bytes), as: UTF8.self)
        else { return nil }
        self.init(decoded)
    }
}

/// A wrapper that compares and hashes a stored property by its bytes.
///
/// Without the wrapper, a synthesized `==` or `hash(into:)` would use Swift's canonical equivalence for a property of
/// type `String`.
@propertyWrapper
@frozen
public struct Exact<Value: ExactlyComparable>: Hashable {
    public var wrappedValue: Value

    @inlinable
    public init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    public static func == (left: Exact, right: Exact) -> Bool { left.wrappedValue.isExactly(right.wrappedValue) }

    public func hash(into hasher: inout Hasher) { wrappedValue.hashBytes(into: &hasher) }
}

extension Exact: Sendable where Value: Sendable {}

/// A value that consists of texts, which are compared by their bytes.
public protocol ExactlyComparable {
    func isExactly(_ other: Self) -> Bool
    func hashBytes(into hasher: inout Hasher)
}

extension String: ExactlyComparable {
    public func isExactly(_ other: String) -> Bool { hasSameBytes(as: other) }

    public func hashBytes(into hasher: inout Hasher) {
        let isHashed: Void? = utf8.withContiguousStorageIfAvailable {
            hasher.combine(bytes: UnsafeRawBufferPointer($0))
        }
        if isHashed == nil { for byte in utf8 { hasher.combine(byte) } }
        // this byte never occurs in UTF-8; it separates the texts, because ("a", "bc") and ("ab", "c") must have
        // different hashes
        hasher.combine(0xff as UInt8)
    }
}

extension Optional: ExactlyComparable where Wrapped: ExactlyComparable {
    public func isExactly(_ other: Wrapped?) -> Bool {
        switch (self, other) {
        case (nil, nil): true
        case (let left?, let right?): left.isExactly(right)
        default: false
        }
    }

    public func hashBytes(into hasher: inout Hasher) {
        hasher.combine(self == nil)
        if let self { self.hashBytes(into: &hasher) }
    }
}

extension Array: ExactlyComparable where Element: ExactlyComparable {
    public func isExactly(_ other: [Element]) -> Bool { elementsEqual(other) { $0.isExactly($1) } }

    public func hashBytes(into hasher: inout Hasher) {
        hasher.combine(count)
        for element in self { element.hashBytes(into: &hasher) }
    }
}

extension Dictionary: ExactlyComparable where Key == ByteExactString, Value: ExactlyComparable {
    public func isExactly(_ other: [ByteExactString: Value]) -> Bool {
        count == other.count && allSatisfy { name, value in other[name]?.isExactly(value) ?? false }
    }

    public func hashBytes(into hasher: inout Hasher) { hasher.combine(Set(keys)) }
}

extension ByteExactString: JSONWritable {
    public func write(to writer: inout JSONWriter) { writer.string(string) }
}

extension JSONWriter {
    public mutating func name(_ name: ByteExactString) { self.name(name.string) }
}

extension Dictionary where Key == ByteExactString {
    @inlinable
    public subscript(_ key: String) -> Value? {
        get { self[ByteExactString(key)] }
        set { self[ByteExactString(key)] = newValue }
        _modify { yield &self[ByteExactString(key)] }
    }

    @inlinable
    public subscript(_ key: String, default value: @autoclosure () -> Value) -> Value {
        get { self[ByteExactString(key)] ?? value() }
        _modify { yield &self[ByteExactString(key), default: value()] }
    }

    @inlinable
    @discardableResult
    public mutating func removeValue(forKey key: String) -> Value? { removeValue(forKey: ByteExactString(key)) }
}

extension Set where Element == ByteExactString {
    @inlinable
    public func contains(_ text: String) -> Bool { contains(ByteExactString(text)) }

    @inlinable
    @discardableResult
    public mutating func insert(_ text: String) -> (inserted: Bool, memberAfterInsert: ByteExactString) {
        insert(ByteExactString(text))
    }

    /// This initializer is used only if the context requires a set of ``ByteExactString``.
    ///
    /// Without such a context, `Set(texts)` is a set of `String`.
    @_disfavoredOverload
    @inlinable
    public init(_ texts: some Sequence<String>) { self.init(texts.lazy.map { ByteExactString($0) }) }
}
