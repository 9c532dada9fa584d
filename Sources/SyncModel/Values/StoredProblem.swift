import JSONText

/// A stored problem object, as far as operators' lists show it.
///
/// It lacks what its user and the upstream wrote.
public struct StoredProblem: Sendable, Hashable {
    /// A ``ProblemCode``, or one of a version with other codes; nil if missing.
    @Exact public private(set) var code: String?
    /// The problem as a sentence; nil if missing.
    public let detail: String?

    /// - Parameter json: a problem object; any other JSON has no contents.
    public init(_ json: [UInt8]) {
        let root = Self.root(json)
        code = root?["code"]?.string
        detail = root.flatMap { RedactedProblem(of: $0).detail }
    }

    /// A stored problem without what its user and the upstream wrote.
    ///
    /// Nil where it cannot be read.
    static func redacted(_ json: [UInt8]) -> [UInt8]? {
        root(json).flatMap { RedactedProblem(of: $0).json }
    }

    /// The entity of a conflict nests deeper in a problem than in a request.
    private static func root(_ json: [UInt8]) -> JSONValue? {
        (try? JSONTree(parsing: json, limits: .widest))?.root
    }
}

/// Renders a stored problem without what its user and the upstream wrote.
///
/// It leaves out the address that a redirect names, which mostly is the request's own, the members of the payload that
/// pointers lead to, and the conflicting entity. Rows contain all of it, and the user's own devices see it, so it is
/// left out when operators read it.
struct RedactedProblem {
    private static let payload = Array("/payload".utf8)
    private static let slash = UInt8(ascii: "/")

    private let problem: JSONValue
    /// Pointers that lead into the payload, which sentences quote.
    ///
    /// The longest first, as one may begin with another.
    private let pointers: [String]

    init(of problem: JSONValue) {
        self.problem = problem
        let errors = problem["errors"]?.elements.map(Array.init) ?? []
        pointers = errors.compactMap { $0["pointer"]?.string }.filter { Self.place($0) != $0 }
            .sorted { $0.utf8.count > $1.utf8.count }
    }

    /// The problem's sentence; nil if it is missing.
    var detail: String? { problem["detail"]?.string.map(sentence) }

    /// The problem with all its other members; nil where it is no object.
    var json: [UInt8]? {
        guard let members = problem.members else { return nil }
        return JSONWriter.object { writer in
            for (name, value) in members where !name.equals("current") { write(name, value, to: &writer) }
        }
    }

    /// Writes a member of the problem, or of one of its errors.
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
        // byte by byte: the text next to a pointer may form one character with its end
        let bytes = pointers.reduce(Array(text.utf8)) { bytes, pointer in
            bytes.replacing(Array(pointer.utf8), with: Array(Self.place(pointer).utf8))
        }
        let words = UpstreamResponse.withoutExcerpt(String(decoding: bytes, as: UTF8.self))
        return UpstreamResponse.withoutPlace(words)
    }

    /// A pointer without the names from the payload.
    private static func place(_ pointer: String) -> String {
        let bytes = Array(pointer.utf8)
        guard let start = bytes.firstRange(of: payload + [slash]) else { return pointer }
        return String(decoding: bytes[..<start.lowerBound] + payload, as: UTF8.self)
    }
}
