import FoundationEssentials
import JSONText

/// The facts about one entity that an upstream's response proves. These facts decide the change in the feed.
///
/// A mutation has an entity and an endpoint, and the gateway cannot check that the endpoint addresses this entity. A
/// 200 to a request for another resource proves nothing about the entity. Therefore a response is evidence only if the
/// request's path or the document in the response contains the entity's id.
struct UpstreamEvidence {
    private let mutation: QueuedMutation
    private let request: UpstreamRequest
    private let response: UpstreamResponse
    /// The entity's document in the answer, as JSON.
    private let document: [UInt8]?
    /// Whether the request's path contains the id.
    private let isNamed: Bool

    /// - Parameter shown: the entity in the response. This entity may differ from the mutation's entity.
    init(
        about id: ServerID,
        of mutation: QueuedMutation,
        _ request: UpstreamRequest,
        _ response: UpstreamResponse,
        _ shown: UpstreamEntity?
    ) {
        self.mutation = mutation
        self.request = request
        self.response = response
        document = shown?.id.text == id.text ? shown?.document : nil
        isNamed = request.namesEntity || id.isSegment(of: request.path)
    }

    /// The ETag of the mutation's entity; nil if the response's ETag may belong to something else.
    var etag: String? {
        switch mutation.operation {
        case .delete: nil
        case .create where mutation.override == nil: response.etag
        case .create, .update, .replace: isNamed ? response.etag : nil
        }
    }

    /// The mutation's change to the entity, and the evidence for it.
    var change: (Outcome.EntityChange, Outcome.Evidence) {
        switch mutation.operation {
        case .create where mutation.override == nil: (whole(document ?? content), .created)
        case .create, .replace: (whole(document ?? (isNamed ? content : nil)), .written)
        case .update: (patched, .written)
        case .delete: deletion
        }
    }

    private var content: [UInt8]? { request.content ?? request.body }

    private func whole(_ document: [UInt8]?) -> Outcome.EntityChange {
        document.map { .document($0, etag: etag) } ?? .none
    }

    private var patched: Outcome.EntityChange {
        if document != nil { return whole(document) }
        guard isNamed, let body = content else { return .none }
        return request.method == "PUT" ? whole(body) : .patch(body, etag: etag)
    }

    private var deletion: (Outcome.EntityChange, Outcome.Evidence) {
        if response.status == 404 || response.status == 410 { return (isNamed ? .deleted : .none, .missing) }
        return (isNamed || document != nil ? .deleted : .none, .written)
    }
}

extension ServerID {
    /// Whether a path has the id as a whole segment, percent-encoded or not.
    func isSegment(of path: String) -> Bool {
        let encoded = PercentEncoding.encoded(text)
        return path.utf8.prefix { $0 != 0x3f }.split(separator: 0x2f).contains { segment in
            if segment.elementsEqual(encoded) { return true }
            // the segment may be encoded in another way, or contain an OData key
            let mayHaveKey = segment.last == 0x29 || segment.contains(0x25)
            guard mayHaveKey || (segment.count == 36 && !isInteger) else { return false }
            guard let decoded = String(validating: PercentEncoding.decoded(segment), as: UTF8.self) else {
                return false
            }
            if mayHaveKey, let key = ODataKey(segment: decoded)?.id, key.text == text { return true }
            return decoded == text || (uuid != nil && UUID(parsing: decoded) == uuid)
        }
    }
}

/// The entity in an upstream's answer, with its id and the document that contains the id.
struct UpstreamEntity {
    /// The id, as an integer or a string as in the upstream's JSON.
    let id: ServerID
    /// The object that contains the id; nil if the object cannot be stored.
    let document: [UInt8]?

    /// Creates an entity of which only the id is known.
    init(id: ServerID) {
        self.id = id
        document = nil
    }

    /// Finds the entity in a response's body by the JSON Pointer to the entity's id.
    ///
    /// The body of a 202 is never an entity. The upstream processes the request later, and the body describes the state
    /// of this processing (RFC 9110, 15.3.3). A problem document (RFC 9457) is never an entity either.
    ///
    /// - Parameter documentPointer: the JSON Pointer to the document; nil for the object that contains the id. A
    ///   document with another id belongs to another entity, and is not used.
    init?(in response: UpstreamResponse, idPointer: String, documentPointer: String? = nil) {
        guard !response.isProblem, let root = Self.root(of: response), let id = Self.id(at: idPointer, in: root),
            let step = idPointer.lastIndex(of: "/")
        else { return nil }
        self.id = id
        let place = documentPointer ?? String(idPointer[..<step])
        let own = Self.place(ofID: idPointer, inDocument: place, in: root)
        let isOther = own.map { Self.id(at: $0, in: root)?.text != id.text } ?? false
        document = isOther ? nil : Self.document(at: place, in: root, response)
    }

    /// Finds the entity that has its document at a JSON Pointer.
    ///
    /// A problem document as a whole is never the entity, but its members can be.
    ///
    /// - Parameters:
    ///   - named: the id in the request. This id is used if the document and the rest of the answer contain no id.
    ///   - isNew: whether the entity's id is not known yet. If so, the id must be in the document, because the rest of
    ///     the answer may have the id of something else, for example of an error.
    init?(
        in response: UpstreamResponse,
        document place: String,
        idPointer: String,
        named: ServerID?,
        isNew: Bool = false
    ) {
        guard !(response.isProblem && place.isEmpty), let root = Self.root(of: response),
            root.value(at: place)?.kind == .object
        else { return nil }
        let holds = !isNew && !response.isProblem && root.value(at: idPointer) != nil
        let own = Self.place(ofID: idPointer, inDocument: place, in: root) ?? (holds ? idPointer : nil)
        guard let id = own.map({ Self.id(at: $0, in: root) }) ?? named else { return nil }
        self.id = id
        document = Self.document(at: place, in: root, response)
    }

    private static func root(of response: UpstreamResponse) -> JSONValue? {
        guard response.status != 202, let json = response.json ?? response.unkeptJSON else { return nil }
        return try? JSONTree(parsing: json).root
    }

    private static func id(at pointer: String, in root: JSONValue) -> ServerID? {
        // a duplicate member or an invalid string cannot be the id
        defect(at: pointer, in: root) != nil ? nil : root.value(at: pointer).flatMap(ServerID.init(json:))
    }

    /// The JSON Pointer to a document's id; nil for a document without an id.
    private static func place(ofID idPointer: String, inDocument place: String, in root: JSONValue) -> String? {
        let member = idPointer.lastIndex(of: "/").map { String(idPointer[$0...]) } ?? idPointer
        let places = idPointer.hasPrefix(place + "/") ? [idPointer] : [place + idPointer, place + member]
        return places.first { root.value(at: $0) != nil }
    }

    private static func document(at place: String, in root: JSONValue, _ response: UpstreamResponse) -> [UInt8]? {
        guard response.json != nil, let shown = root.value(at: place), shown.kind == .object else { return nil }
        return Array(shown.raw)
    }

    /// The defect of a value, or of an object that contains the value.
    private static func defect(at pointer: String, in root: JSONValue) -> JSONDefect? {
        root.defects.first { (pointer + "/").hasPrefix($0.pointer + "/") }
    }

    /// The reason why a body cannot contain an entity; nil if the body is empty, an object or an array.
    static func unusableBody(of response: UpstreamResponse) -> UnusableBody? {
        if let body = response.unusableBody { return body }
        guard let json = response.json ?? response.unkeptJSON, json.first == UInt8(ascii: "\"") else { return nil }
        return (try? JSONTree(parsing: json).root)?.string.map { UnusableBody(string: $0) }
    }

    /// The reason why a body contains no entity. The text continues a sentence that begins with "the body".
    static func problem(in response: UpstreamResponse, idPointer: String) -> String {
        if let body = unusableBody(of: response) { return body.reason }
        if response.isProblem { return "is a problem document (RFC 9457), not the entity" }
        guard let json = response.json ?? response.unkeptJSON, let root = try? JSONTree(parsing: json).root else {
            return "is empty"
        }
        guard let value = root.value(at: idPointer) else {
            let kind = root.kind == .array ? "is an array that" : "is JSON that"
            return "\(kind) has no value at \(idPointer)"
        }
        switch defect(at: idPointer, in: root)?.kind {
        case .duplicateMember: return "has a duplicate member at \(idPointer)"
        case .nulCharacter, .loneSurrogate: return "has an invalid text at \(idPointer)"
        case .numberOutOfRange: return "has a number with too many digits at \(idPointer)"
        case nil: break
        }
        switch value.kind {
        case .null: return "has null at \(idPointer)"
        case .bool: return "has a boolean at \(idPointer)"
        case .object: return "has an object at \(idPointer)"
        case .array: return "has an array at \(idPointer)"
        case .number: return "has a number at \(idPointer) that is not written as a whole number of up to 200 digits"
        case .string:
            return "has a text at \(idPointer) that is empty, longer than 200 bytes, or has control characters"
        }
    }
}
