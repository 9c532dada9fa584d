package import JSONText
package import SyncModel

/// Defines how the items of a message or a response become events.
///
/// Pure and total: each item of a body becomes an event, is ignored, or is refused. The reason for a refusal includes
/// the place of the item.
package struct SourceMapping: TableObject, Hashable {
    /// The maximum number of rules in a mapping.
    package static let ruleLimit = 50

    /// The array of items in a body; nil if the body is the only item.
    package internal(set) var events: MappedPointer?
    /// The rules. An item is converted by the first rule that matches the item.
    package private(set) var rules: [MappingRule] = []

    package init() {}

    package static let table = MemberTable<Self, Self>("a mapping") {
        BodyMember("events", .mappedPointer, as: \.events)
        BodyMember("rules", .rules, as: \.rules).required()
    }

    /// The maximum number of bytes by which the documents from one body may exceed the body.
    ///
    /// A pointer with `^` starts at the whole body, so the documents of all items may repeat the same part of the body.
    /// The bytes of refused events are included, because these events were written and read, too.
    package static let repeatedBytes = 4_194_304

    /// Makes events from a body.
    ///
    /// - Parameters:
    ///   - id: how events get their ids if the rule does not define an id.
    ///   - limits: the limits of a push. `mutations` limits the number of items. A caller that submits the events in
    ///     several batches can permit more items.
    /// - Throws: `validation_failed` if there is no array of items; `payload_too_large` if there are too many items.
    package func map(_ body: JSONValue, id: MappedID, limits: IntakeLimits) throws(Problem) -> MappedEvents {
        let items = try items(of: body, limit: limits.mutations)
        var values = MappedValues(body: body)
        var found = MappedEvents()
        var bytes = 0
        var allowance = ErrorAllowance()
        for (index, item) in items.enumerated() {
            let place = events.map { "\($0.pointer)/\(index)" } ?? ""
            values.select(item)
            guard let number = rules.firstIndex(where: { $0.matches(&values) }) else {
                found.ignored += 1
                continue
            }
            let maker = EventMaker(
                rule: rules[number],
                place: place,
                limits: limits,
                errorLimit: allowance.nextEntry
            )
            let (entry, added) = maker.entry(&values, id: events == nil ? id : id.ofItem(index))
            allowance.count(entry.listedErrors)
            bytes += added
            guard bytes <= body.rawCount + Self.repeatedBytes else {
                let detail = "the documents of its events repeat more than \(Self.repeatedBytes) bytes of this message"
                throw Problem(.payloadTooLarge, detail)
            }
            found.add(entry, MappedEvents.Origin(place: place, rule: number), rules[number])
        }
        return found
    }

    private func items(of body: JSONValue, limit: Int) throws(Problem) -> [JSONValue] {
        guard let events else { return [body] }
        guard let elements = body.value(at: events.pointer)?.elements else {
            let detail = "the mapping expects an array of events at '\(events.pointer)', which is missing"
            throw Problem(.validationFailed, pointer: events.pointer, rule: Rule.memberType, detail)
        }
        let items = Array(elements.prefix(limit + 1))
        guard items.count <= limit else {
            throw Problem(.payloadTooLarge, "a message may contain at most \(limit) events")
        }
        return items
    }
}

extension MemberKind<[MappingRule]> {
    fileprivate static var rules: Self {
        Self { value, place, report in
            let limit = SourceMapping.ruleLimit
            guard let elements = value.elements?.prefix(limit + 1).map({ $0 }), (1...limit).contains(elements.count)
            else {
                report.refuse(place.pointer, Rule.range, "rules must be an array of 1 to \(limit) rules")
                return nil
            }
            return elements.enumerated().compactMap { MappingRule($1, at: "\(place.pointer)/\($0)", &report) }
        }
    }
}

/// The place of a value: a JSON Pointer (RFC 6901) that starts at the item or, after a `^`, at the whole body.
package struct MappedPointer: Sendable, Hashable, JSONWritable {
    /// The longest pointer, in bytes.
    package static let maximumBytes = 500

    /// The pointer as the operator wrote it.
    @Exact package private(set) var text: String

    /// Creates a pointer to the whole item.
    package init() { text = "" }

    /// Reads a pointer; nil for a text of another form.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        self.text = text
        guard JSONPointer.isValid(pointer) else { return nil }
    }

    package func write(to writer: inout JSONWriter) { writer.string(text) }

    var isOfBody: Bool { text.utf8.first == UInt8(ascii: "^") }
    var pointer: String { isOfBody ? String(text.dropFirst()) : text }

    /// Returns the place of the value in the body.
    ///
    /// - Parameter place: the place of the item.
    func place(in place: String) -> String { isOfBody ? pointer : place + pointer }
}

/// The values at pointers. Each value is looked up only once, because a look-up in a large body takes longer.
struct MappedValues {
    private let body: JSONValue
    private var ofBody: [ByteExactString: JSONValue?] = [:]
    private var item: JSONValue
    private var ofItem: [ByteExactString: JSONValue?] = [:]

    init(body: JSONValue) {
        self.body = body
        item = body
    }

    mutating func select(_ item: JSONValue) {
        self.item = item
        ofItem.removeAll(keepingCapacity: true)
    }

    /// Returns the value at a pointer; nil if there is no value, or if the value is null.
    mutating func value(at pointer: MappedPointer) -> JSONValue? {
        if pointer.isOfBody {
            if let known = ofBody[pointer.text] { return known }
            let found = body.value(at: pointer.pointer).flatMap { $0.isNull ? nil : $0 }
            ofBody[pointer.text] = .some(found)
            return found
        }
        if let known = ofItem[pointer.text] { return known }
        let found = item.value(at: pointer.pointer).flatMap { $0.isNull ? nil : $0 }
        ofItem[pointer.text] = .some(found)
        return found
    }
}

/// A value that the conditions of a mapping can contain. A missing value is treated as null.
package enum MappedScalar: Sendable, Hashable, JSONWritable {
    case text(ByteExactString)
    case integer(Int64)
    case bool(Bool)
    case null

    /// Reads a value; nil for an array, an object, or a number that is not an integer.
    init?(_ value: JSONValue?) {
        guard let value, !value.isNull else {
            self = .null
            return
        }
        if let text = value.string {
            self = .text(ByteExactString(text))
        } else if let flag = value.bool {
            self = .bool(flag)
        } else if let number = value.int64 {
            self = .integer(number)
        } else {
            return nil
        }
    }

    /// The value as a member name. A rule's operations are looked up by this name.
    var name: String {
        switch self {
        case .text(let text): text.string
        case .integer(let number): String(number)
        case .bool(let flag): flag ? "true" : "false"
        case .null: "null"
        }
    }

    package func write(to writer: inout JSONWriter) {
        switch self {
        case .text(let text): writer.string(text.string)
        case .integer(let number): writer.int(number)
        case .bool(let flag): writer.bool(flag)
        case .null: writer.null()
        }
    }
}
