import JSONText
package import SyncModel

/// The place of a value: a JSON Pointer (RFC 6901) from the item on, or with `^` in front from the whole body on.
package struct MappedPointer: Sendable, Hashable {
    /// The longest, in bytes.
    package static let maximumBytes = 500

    /// As it was written.
    @Exact package private(set) var text: String

    /// Nil for a text of another form.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.maximumBytes else { return nil }
        self.text = text
        guard JSONPointer.isValid(pointer) else { return nil }
    }

    var isOfBody: Bool { text.utf8.first == UInt8(ascii: "^") }
    var pointer: String { isOfBody ? String(text.dropFirst()) : text }

    /// Where that is in the body.
    ///
    /// - Parameter place: of the item.
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

    mutating func find(at item: JSONValue) {
        self.item = item
        ofItem.removeAll(keepingCapacity: true)
    }

    /// Nil if there is nothing, or null.
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
