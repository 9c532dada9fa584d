import JSONText

/// The parts of a stored problem object that operators' lists contain.
///
/// These parts contain no texts from the mutation's user or from the upstream.
public struct StoredProblem: Sendable, Hashable {
    /// A ``ProblemCode``, or a code of another version; nil if the code is missing.
    @Exact public private(set) var code: String?
    /// The problem as a sentence; nil if the sentence is missing.
    public let detail: String?

    /// - Parameter json: a problem object. For other JSON, all parts are nil.
    public init(_ json: [UInt8]) {
        let root = Self.root(json)
        code = root?["code"]?.string
        detail = root.flatMap { RedactedProblem(of: $0).detail }
    }

    /// A stored problem without texts from the mutation's user and from the upstream.
    ///
    /// Nil if the problem cannot be parsed.
    static func redacted(_ json: [UInt8]) -> [UInt8]? {
        root(json).flatMap { RedactedProblem(of: $0).json }
    }

    /// Parses a problem with wide limits, because the entity in a conflict may be nested more deeply than requests may
    /// be.
    private static func root(_ json: [UInt8]) -> JSONValue? {
        (try? JSONTree(parsing: json, limits: .widest))?.root
    }
}

/// Renders a stored problem without texts from the mutation's user and from the upstream.
///
/// The result omits the conflicting entity, the names of payload members in pointers, and the address of a redirect,
/// which is usually the address of the request. The stored row contains all of these parts, and the user's own devices
/// receive them.
struct RedactedProblem {
    private static let payload = Array("/payload".utf8)
    private static let slash = UInt8(ascii: "/")

    private let problem: JSONValue
    /// The pointers into the payload that the problem's sentences may quote.
    ///
    /// Longer pointers come first, because a pointer can be the beginning of a longer pointer.
    private let pointers: [String]

    init(of problem: JSONValue) {
        self.problem = problem
        let errors = problem["errors"]?.elements.map(Array.init) ?? []
        pointers = errors.compactMap { $0["pointer"]?.string }.filter { Self.place($0) != $0 }
            .sorted { $0.utf8.count > $1.utf8.count }
    }

    /// The redacted detail of the problem; nil if the problem has no detail.
    var detail: String? { problem["detail"]?.string.map(sentence) }

    /// The redacted problem with its other members; nil if the problem is not an object.
    var json: [UInt8]? {
        guard let members = problem.members else { return nil }
        return JSONWriter.object { writer in
            for (name, value) in members where !name.equals("current") { write(name, value, to: &writer) }
        }
    }

    /// Writes a member of the problem or of one of its errors.
    private func write(_ name: JSONName, _ value: JSONValue, to writer: inout JSONWriter) {
        writer.name(name.string)
        if name.equals("detail"), let text = value.string {
            writer.string(sentence(text))
        } else if name.equals("pointer"), let text = value.string {
            writer.string(Self.place(text))
        } else if name.equals("errors"), let errors = value.elements {
            writer.beginArray()
            for error in errors {
                guard let members = error.members else { continue }
                writer.object { writer in
                    for (name, value) in members { write(name, value, to: &writer) }
                }
            }
            writer.endArray()
        } else {
            writer.value(value)
        }
    }

    private func sentence(_ text: String) -> String {
        // bytes are compared, because the text after a pointer may form one character with the end of the pointer
        let bytes = pointers.reduce(Array(text.utf8)) { bytes, pointer in
            bytes.replacing(Array(pointer.utf8), with: Array(Self.place(pointer).utf8))
        }
        let words = UpstreamResponse.withoutExcerpt(String(decoding: bytes, as: UTF8.self))
        return UpstreamResponse.withoutPlace(words)
    }

    /// A pointer without the names of payload members.
    private static func place(_ pointer: String) -> String {
        let bytes = Array(pointer.utf8)
        guard let start = bytes.firstRange(of: payload + [slash]) else { return pointer }
        return String(decoding: bytes[..<start.lowerBound] + payload, as: UTF8.self)
    }
}
