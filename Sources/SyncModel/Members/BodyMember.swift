package import JSONText

/// A line of a ``MemberTable``, with the functions that read and write one member.
package struct BodyMember<Body, View>: Sendable {
    package typealias Read = @Sendable (JSONValue, MemberPlace, inout Body, inout MemberReport) -> Void

    let name: String
    /// A function that reads the member; nil for a member that requests do not have.
    let read: Read?
    /// A function that writes the name and the value; nil for a member that responses do not have.
    private(set) var write: (@Sendable (View, inout JSONWriter) -> Void)?
    /// The error if the member is missing; nil for an optional member.
    private(set) var requirement: String?
    private(set) var ignoresNull = false

    private init(_ name: String, reader: Read?) {
        self.name = name
        read = reader
    }

    /// A member that a closure reads.
    package init(_ name: String, read: @escaping Read) { self.init(name, reader: read) }

    /// A member that only responses have.
    package init<Value: JSONWritable & Sendable>(_ name: String, shown value: @escaping @Sendable (View) -> Value) {
        self = Self(name, reader: nil).shown(value)
    }

    /// A member that is read into a property. If the member is absent, the property keeps its value.
    package init<Value>(
        _ name: String,
        _ kind: MemberKind<Value>,
        into path: any WritableKeyPath<Body, Value> & Sendable
    ) {
        self.init(name) { value, place, body, report in
            if let new = kind.read(value, at: place, &report) { body[keyPath: path] = new }
        }
    }

    /// A member that is read into an optional property. If the member is absent, the property keeps its value.
    package init<Value>(
        _ name: String,
        _ kind: MemberKind<Value>,
        into path: any WritableKeyPath<Body, Value?> & Sendable
    ) {
        self.init(name) { value, place, body, report in
            if let new = kind.read(value, at: place, &report) { body[keyPath: path] = new }
        }
    }

    /// A member of a merge patch (RFC 7396), in which null resets the value to its default.
    package init<Value>(
        _ name: String,
        _ kind: MemberKind<Value>,
        into path: any WritableKeyPath<Body, Change<Value>> & Sendable
    ) {
        self.init(name) { value, place, body, report in
            if value.isNull {
                body[keyPath: path] = .reset
            } else if let new = kind.read(value, at: place, &report) {
                body[keyPath: path] = .set(new)
            }
        }
    }

    // MARK: - Properties

    /// Writes a value in responses. A nil value is written as `null`.
    package func shown<Value: JSONWritable & Sendable>(_ value: @escaping @Sendable (View) -> Value) -> Self {
        written { view, writer in value(view).write(to: &writer) }
    }

    /// Writes the member's value in responses with a closure.
    package func written(_ write: @escaping @Sendable (View, inout JSONWriter) -> Void) -> Self {
        var member = self
        member.write = { [name] view, writer in
            writer.name(name)
            write(view, &writer)
        }
        return member
    }

    /// Omits the member from responses if the closure returns true.
    package func omitted(if isOmitted: @escaping @Sendable (View) -> Bool) -> Self {
        var member = self
        member.write = { [write] view, writer in
            if !isOmitted(view) { write?(view, &writer) }
        }
        return member
    }

    /// Makes the member required.
    ///
    /// - Parameter detail: the error if the member is missing; nil for `… is required`.
    package func required(_ detail: String? = nil, if isRequired: Bool = true) -> Self {
        var member = self
        member.requirement = isRequired ? detail ?? "\(name) is required" : nil
        return member
    }

    /// Treats null as absent for this member, although null is a value for other members of the object.
    package var nullable: Self {
        var member = self
        member.ignoresNull = true
        return member
    }
}

extension BodyMember where View == Body {
    /// A member that is read into a property, and written from it.
    package init<Value: JSONWritable & Sendable>(
        _ name: String,
        _ kind: MemberKind<Value>,
        as path: any WritableKeyPath<Body, Value> & Sendable
    ) {
        self = Self(name, kind, into: path).shown { $0[keyPath: path] }
    }

    /// A member that is read into an optional property, and written from it. If the property is nil, the member is not
    /// written.
    package init<Value: JSONWritable & Sendable>(
        _ name: String,
        _ kind: MemberKind<Value>,
        as path: any WritableKeyPath<Body, Value?> & Sendable
    ) {
        self = Self(name, kind, into: path).shown { $0[keyPath: path] }.omitted { $0[keyPath: path] == nil }
    }
}

/// The change that a request makes to a value.
package enum Change<Value: Sendable>: Sendable {
    /// The member is absent.
    case keep
    /// The member is null.
    case reset
    case set(Value)

    package func apply(to value: inout Value, default initial: Value) {
        switch self {
        case .keep: break
        case .reset: value = initial
        case .set(let new): value = new
        }
    }
}

/// Collects the members of a table, which are written one per line.
@resultBuilder
package enum BodyMemberBuilder<Body, View> {
    package static func buildExpression(_ member: BodyMember<Body, View>) -> [BodyMember<Body, View>] { [member] }

    package static func buildBlock(_ members: [BodyMember<Body, View>]...) -> [BodyMember<Body, View>] {
        members.flatMap { $0 }
    }

    package static func buildOptional(_ members: [BodyMember<Body, View>]?) -> [BodyMember<Body, View>] {
        members ?? []
    }
}
