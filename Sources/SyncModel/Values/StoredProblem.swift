import JSONText

/// The parts of a stored problem object that operators' lists contain.
///
/// They do not include texts of the mutation's user and of the upstream.
public struct StoredProblem: Sendable, Hashable {
    /// A ``ProblemCode``, or a code of another version; nil if missing.
    @Exact public private(set) var code: String?
    /// The problem as a sentence; nil if missing.
    public let detail: String?

    /// - Parameter json: a problem object. For any other JSON, all parts are nil.
    public init(_ json: [UInt8]) {
        let root = Self.root(json)
        code = root?["code"]?.string
        detail = root.flatMap { RedactedProblem(of: $0).detail }
    }

    /// A stored problem without the texts of the mutation's user and of the upstream.
    ///
    /// Nil if the problem cannot be read.
    static func redacted(_ json: [UInt8]) -> [UInt8]? {
        root(json).flatMap { RedactedProblem(of: $0).json }
    }

    /// Parses a problem with wide limits, because a conflict's entity may be nested deeper than a request permits.
    private static func root(_ json: [UInt8]) -> JSONValue? {
        (try? JSONTree(parsing: json, limits: .widest))?.root
    }
}

/// Renders a stored problem without the texts of the mutation's user and of the upstream.
///
/// It omits the address of a redirect, which usually is the address of the request. It also omits the names of payload
/// members in pointers, and the conflicting entity. The stored row contains all of these parts, and the user's own
/// devices get them.
struct RedactedProblem {
    private static let payload = Array("/payload".utf8)
    private static let slash = UInt8(ascii: "/")

    private let problem: JSONValue
    /// Pointers into the payload, which the problem's sentences quote.
    ///
    /// The longest pointer is first, because a pointer can be the beginning of another pointer.
    private let pointers: [String]

    init(of problem: JSONValue) {
        self.problem = problem
        let errors = problem["errors"]?.elements.map(Array.init) ?? []
        pointers = errors.compactMap { $0["pointer"]?.string }.filter { Self.place($0) != $0 }
            .sorted { $0.utf8.count > $1.utf8.count }
    }

    /// The problem's detail, redacted; nil if it is missing.
    var detail: String? { problem["detail"]?.string.map(sentence) }

    /// The redacted problem with its other members; nil if it is not an object.
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
        // byte by byte, because the text next to a pointer may form one character with the pointer's end
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
