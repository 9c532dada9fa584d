#if canImport(FoundationEssentials)
    package import FoundationEssentials
#else
    package import Foundation
#endif

extension JSONWriter {
    /// A member with a string.
    package mutating func member(_ name: StaticString, _ value: String) {
        self.name(name)
        string(value)
    }

    /// A member with a string.
    package mutating func member(_ name: StaticString, _ value: StaticString) {
        self.name(name)
        string(value)
    }

    /// A member with a UUID in lower case.
    package mutating func member(_ name: StaticString, _ value: UUID) {
        self.name(name)
        uuid(value)
    }

    /// A member with a whole number.
    package mutating func member(_ name: StaticString, _ value: Int64) {
        self.name(name)
        int(value)
    }

    /// A member with a whole number.
    package mutating func member(_ name: StaticString, _ value: Int) {
        self.name(name)
        int(value)
    }

    /// A member with `true` or `false`.
    package mutating func member(_ name: StaticString, _ value: Bool) {
        self.name(name)
        bool(value)
    }

    /// A member with a parsed value, as it was written.
    package mutating func member(_ name: StaticString, _ value: JSONValue) {
        self.name(name)
        self.value(value)
    }

    /// A member with a value that is JSON text already.
    package mutating func member(_ name: StaticString, raw text: some Sequence<UInt8>) {
        self.name(name)
        raw(text)
    }

    /// A member with a value that is JSON text already.
    package mutating func member(_ name: StaticString, raw text: ArraySlice<UInt8>) {
        self.name(name)
        raw(text)
    }

    /// A member with a value that is JSON text already.
    package mutating func member(_ name: StaticString, raw text: [UInt8]) {
        self.name(name)
        raw(text)
    }

    /// A member with `null`.
    package mutating func member(null name: StaticString) {
        self.name(name)
        null()
    }
}

/// Nil is written as `null`.
extension JSONWriter {
    /// A member with a string or `null`.
    package mutating func member(_ name: StaticString, _ value: String?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member with a UUID in lower case or `null`.
    package mutating func member(_ name: StaticString, _ value: UUID?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member with a whole number or `null`.
    package mutating func member(_ name: StaticString, _ value: Int64?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member with a whole number or `null`.
    package mutating func member(_ name: StaticString, _ value: Int?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member with `true`, `false` or `null`.
    package mutating func member(_ name: StaticString, _ value: Bool?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member with a parsed value, as it was written, or `null`.
    package mutating func member(_ name: StaticString, _ value: JSONValue?) {
        if let value { member(name, value) } else { member(null: name) }
    }

    /// A member with a value that is JSON text already, or `null`.
    package mutating func member(_ name: StaticString, raw text: [UInt8]?) {
        if let text { member(name, raw: text) } else { member(null: name) }
    }

    /// A member with a value that is JSON text already, or `null`.
    package mutating func member(_ name: StaticString, raw text: ArraySlice<UInt8>?) {
        if let text { member(name, raw: text) } else { member(null: name) }
    }
}
