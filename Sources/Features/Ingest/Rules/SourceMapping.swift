package import JSONText
package import SyncModel

/// Defines how messages of an organization's API become events.
///
/// Pure and total: each item of a body becomes an event, is ignored, or is refused for a reason that names its place.
package struct SourceMapping: TableObject, Hashable {
    /// The maximum number of rules of a mapping.
    package static let ruleLimit = 50

    /// The array of items in a body; nil if the body is the only item.
    package internal(set) var events: MappedPointer?
    /// The rules. The first rule that matches an item applies to it.
    package private(set) var rules: [MappingRule] = []

    package init() {}

    package static let table = MemberTable<Self, Self>("a mapping") {
        BodyMember("events", .mappedPointer, as: \.events)
        BodyMember("rules", .rules, as: \.rules).required()
    }

    /// The maximum number of document bytes made from one body, in addition to its own length.
    ///
    /// With `^`, every item may repeat a part of the body. The bytes of refused events count, too, because they were
    /// written and read.
    package static let repeatedBytes = 4_194_304

    /// Makes events from a body.
    ///
    /// - Parameters:
    ///   - id: how the ids of events are made whose rule does not define an id.
    ///   - limits: the limits of a push. `mutations` limits the number of items; a caller that submits events in
    ///     several batches can permit more.
    /// - Throws: `validation_failed` if there is no array of items; `payload_too_large` if there are too many items.
    package func map(_ body: JSONValue, id: MappedID, limits: IntakeLimits) throws(Problem) -> MappedEvents {
        let items = try items(of: body, limit: limits.mutations)
        var values = MappedValues(body: body)
        var found = MappedEvents()
        var bytes = 0
        for (index, item) in items.enumerated() {
            let place = events.map { "\($0.pointer)/\(index)" } ?? ""
            values.select(item)
            guard let number = rules.firstIndex(where: { $0.matches(&values) }) else {
                found.ignored += 1
                continue
            }
            let maker = EventMaker(rule: rules[number], place: place, limits: limits)
            let (entry, added) = maker.entry(&values, id: events == nil ? id : id.ofItem(index))
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

    /// The pointer as it was written.
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

/// The values of pointers, each looked up once: the time for a look-up grows with the size of the body.
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

    /// Returns the value at a pointer; nil if there is no value, or null.
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

/// A value with which a mapping compares. A missing value equals null.
package enum MappedScalar: Sendable, Hashable, JSONWritable {
    case text(ByteExactString)
    case integer(Int64)
    case bool(Bool)
    case null

    /// Reads a value; nil for arrays, objects and numbers that are not whole.
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

    /// The value as the name of a member, by which a rule's operations are looked up.
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
