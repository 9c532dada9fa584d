import CLibYAML
import JSONText
import SyncModel

/// A YAML document, read as JSON.
///
/// libyaml parses the text into events, and each event is written as JSON at once, so there is no tree of nodes. An
/// alias is a copy of the JSON of its anchor. Numbers, `true`, `false` and `null` without quotes have the types of the
/// core schema (YAML 1.2, 10.3); every other scalar is a string. A key is always a string: the key `200` becomes
/// `"200"`.
struct YAMLDocument: Sendable {
    /// The maximum number of bytes of the JSON, with each alias replaced by its copy.
    static let maximumBytes = 67_108_864
    /// The maximum number of values and keys in the JSON, with each alias replaced by its copy.
    static let maximumNodes = 2_000_000
    static let maximumDepth = 500

    private(set) var json: [UInt8] = []
    /// The places of the values in the YAML text, in the order of their offsets in ``json``.
    private var places: [(offset: UInt32, line: UInt32, column: UInt32)] = []

    /// A mapping or sequence that has not ended.
    private struct Frame {
        let isMapping: Bool
        let start: Int
        let nodes: Int
        let anchor: ByteExactString?
        var height = 1
        var isEmpty = true
        var keys: Set<ByteExactString> = []
        var expectsKey: Bool
        /// The offset at which the value of a merge key (`<<`) begins.
        var mergeStart: Int?
        var merges: [Merge] = []
    }

    /// The value of a merge key, which is not part of the mapping's JSON.
    private struct Merge {
        let json: [UInt8]
        let mark: Mark
    }

    private typealias Mark = (line: UInt32, column: UInt32)

    /// The JSON of a node that aliases may repeat.
    private struct Anchored {
        let range: Range<Int>
        let nodes: Int
        let height: Int
    }

    private var frames: [Frame] = []
    private var anchors: [ByteExactString: Anchored] = [:]
    private var nodes = 0
    /// The number of bytes written, including those that a merge has moved.
    private var written = 0
    /// The number of values of merge keys that have not ended. Anchors in these values are not stored.
    private var merging = 0
    private var mark: Mark = (1, 1)

    init(_ text: [UInt8]) throws(OpenAPIRoutes.Refusal) {
        guard !text.isEmpty else { throw .init(detail: "the document is empty") }
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else { throw .init(detail: "there is no memory for the document") }
        defer { yaml_parser_delete(parser) }
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        let result = text.withUnsafeBufferPointer { buffer -> Result<Void, OpenAPIRoutes.Refusal> in
            yaml_parser_set_input_string(parser, buffer.baseAddress, buffer.count)
            do throws(OpenAPIRoutes.Refusal) { return .success(try readAll(parser, text)) } catch {
                return .failure(error)
            }
        }
        try result.get()
    }

    /// Returns the line and the column of a value in the YAML text.
    ///
    /// - Parameter offset: the offset of the value in ``json``.
    func place(of offset: Int) -> String {
        var (low, high) = (0, places.count)
        while low < high {
            let middle = (low + high) / 2
            if Int(places[middle].offset) <= offset { low = middle + 1 } else { high = middle }
        }
        let found = low > 0 ? places[low - 1] : (0, 1, 1)
        return "line \(found.1), column \(found.2)"
    }

    private mutating func readAll(
        _ parser: UnsafeMutablePointer<yaml_parser_t>,
        _ text: [UInt8]
    ) throws(OpenAPIRoutes.Refusal) {
        var documents = 0
        while true {
            var event = yaml_event_t()
            guard yaml_parser_parse(parser, &event) == 1 else { throw Self.failure(of: parser.pointee, text) }
            defer { yaml_event_delete(&event) }
            mark = (UInt32(clamping: event.start_mark.line + 1), UInt32(clamping: event.start_mark.column + 1))
            switch event.type {
            case YAML_DOCUMENT_START_EVENT:
                documents += 1
                if documents > 1 { throw refusal("the file has more than one YAML document") }
            case YAML_STREAM_END_EVENT:
                guard !json.isEmpty else { throw refusal("the document is empty") }
                return
            case YAML_SCALAR_EVENT, YAML_ALIAS_EVENT, YAML_MAPPING_START_EVENT, YAML_SEQUENCE_START_EVENT,
                YAML_MAPPING_END_EVENT, YAML_SEQUENCE_END_EVENT:
                try read(event)
            default: break
            }
        }
    }

    private mutating func read(_ event: yaml_event_t) throws(OpenAPIRoutes.Refusal) {
        switch event.type {
        case YAML_SCALAR_EVENT:
            let scalar = YAMLScalar(event)
            if frames.last?.expectsKey == true { return try writeKey(scalar) }
            guard let text = scalar.json else {
                throw refusal("the tag \(Self.shown(scalar.tag ?? "")) is not supported")
            }
            try begin()
            let start = json.count
            try write(text)
            try end(start, nodes: 1, height: 0, anchor: scalar.anchor)
        case YAML_ALIAS_EVENT:
            try writeAlias(ByteExactString(String(cString: event.data.alias.anchor)))
        case YAML_MAPPING_START_EVENT, YAML_SEQUENCE_START_EVENT:
            try open(event)
        default:
            try close()
        }
    }

    // MARK: - Nodes

    private mutating func writeKey(_ scalar: YAMLScalar) throws(OpenAPIRoutes.Refusal) {
        let index = frames.count - 1
        let key = ByteExactString(scalar.text)
        guard frames[index].keys.insert(key).inserted else {
            throw refusal("the key \(Self.shown(scalar.text)) occurs twice in a mapping")
        }
        frames[index].expectsKey = false
        if scalar.isPlain, scalar.text == "<<" {
            frames[index].keys.remove(key)
            frames[index].mergeStart = json.count
            merging += 1
            return
        }
        if !frames[index].isEmpty { try write([UInt8(ascii: ",")]) }
        try count(1)
        let start = json.count
        try write(scalar.quoted)
        if let anchor = scalar.anchor, merging == 0 {
            anchors[anchor] = Anchored(range: start..<json.count, nodes: 1, height: 0)
        }
        try write([UInt8(ascii: ":")])
    }

    private mutating func writeAlias(_ name: ByteExactString) throws(OpenAPIRoutes.Refusal) {
        if frames.last?.expectsKey == true { throw refusal("an alias cannot be a key") }
        guard let anchored = anchors[name] else {
            throw refusal("the alias *\(Self.shown(name.string)) has no anchor before it")
        }
        guard frames.count + anchored.height <= Self.maximumDepth else { throw tooDeep }
        try begin()
        let start = json.count
        try reserve(anchored.range.count)
        try count(anchored.nodes)
        json += Array(json[anchored.range])
        try end(start, nodes: anchored.nodes, height: anchored.height, anchor: nil, counts: false)
    }

    private mutating func open(_ event: yaml_event_t) throws(OpenAPIRoutes.Refusal) {
        let isMapping = event.type == YAML_MAPPING_START_EVENT
        if frames.last?.expectsKey == true { throw refusal("a key must be a text, and not a mapping or a list") }
        let (tag, anchor) =
            isMapping
            ? (event.data.mapping_start.tag, event.data.mapping_start.anchor)
            : (event.data.sequence_start.tag, event.data.sequence_start.anchor)
        if let tag {
            let name = String(cString: tag)
            guard [YAMLScalar.coreTag + (isMapping ? "map" : "seq"), "!"].contains(name) else {
                throw refusal("the tag \(Self.shown(name)) is not supported")
            }
        }
        guard frames.count < Self.maximumDepth else { throw tooDeep }
        try begin()
        frames.append(
            Frame(
                isMapping: isMapping,
                start: json.count,
                nodes: nodes,
                anchor: anchor.map { ByteExactString(String(cString: $0)) },
                expectsKey: isMapping
            )
        )
        try count(1)
        try write([UInt8(ascii: isMapping ? "{" : "[")])
    }

    private mutating func close() throws(OpenAPIRoutes.Refusal) {
        guard var frame = frames.popLast() else { return }
        for merge in frame.merges { try write(merge, into: &frame) }
        try write([UInt8(ascii: frame.isMapping ? "}" : "]")])
        try end(frame.start, nodes: nodes - frame.nodes, height: frame.height, anchor: frame.anchor, counts: false)
    }

    /// Writes the separator before a value, and stores the value's place.
    private mutating func begin() throws(OpenAPIRoutes.Refusal) {
        if let frame = frames.last, !frame.isMapping, !frame.isEmpty { try write([UInt8(ascii: ",")]) }
        places.append((UInt32(json.count), mark.line, mark.column))
    }

    private mutating func end(
        _ start: Int,
        nodes count: Int,
        height: Int,
        anchor: ByteExactString?,
        counts: Bool = true
    ) throws(OpenAPIRoutes.Refusal) {
        if counts { try self.count(count) }
        if let anchor, merging == 0 {
            anchors[anchor] = Anchored(range: start..<json.count, nodes: count, height: height)
        }
        guard !frames.isEmpty else { return }
        let index = frames.count - 1
        frames[index].height = max(frames[index].height, height + 1)
        guard frames[index].isMapping else {
            frames[index].isEmpty = false
            return
        }
        frames[index].expectsKey = true
        guard let mergeStart = frames[index].mergeStart else {
            frames[index].isEmpty = false
            return
        }
        // a merged value is removed, and its members are written when the mapping ends
        frames[index].mergeStart = nil
        merging -= 1
        frames[index].merges.append(Merge(json: Array(json[mergeStart...]), mark: mark))
        json.removeSubrange(mergeStart...)
        while let last = places.last, Int(last.offset) >= mergeStart { places.removeLast() }
    }

    /// Writes the members of a merged mapping (`<<`, YAML 1.1), except those that the mapping with the `<<` has itself.
    private mutating func write(_ merge: Merge, into frame: inout Frame) throws(OpenAPIRoutes.Refusal) {
        mark = merge.mark
        let root = (try? JSONTree(parsing: merge.json, limits: .widest))?.root
        let mappings = root.map { $0.elements.map(Array.init) ?? [$0] } ?? []
        guard !mappings.isEmpty, mappings.allSatisfy({ $0.kind == .object }) else {
            throw refusal("the value of << must be a mapping or a list of mappings")
        }
        for mapping in mappings {
            for (name, value) in mapping.members?.map({ $0 }) ?? [] {
                let key = name.string
                guard frame.keys.insert(ByteExactString(key)).inserted else { continue }
                guard frames.count + value.depth < Self.maximumDepth else { throw tooDeep }
                if !frame.isEmpty { try write([UInt8(ascii: ",")]) }
                frame.isEmpty = false
                frame.height = max(frame.height, value.depth + 1)
                try count(2)
                try write(Self.quoted(key))
                try write([UInt8(ascii: ":")])
                places.append((UInt32(json.count), mark.line, mark.column))
                try write(Array(value.raw))
            }
        }
    }

    // MARK: - Limits

    private mutating func write(_ bytes: [UInt8]) throws(OpenAPIRoutes.Refusal) {
        try reserve(bytes.count)
        json += bytes
    }

    private mutating func reserve(_ bytes: Int) throws(OpenAPIRoutes.Refusal) {
        written += bytes
        guard written <= Self.maximumBytes else {
            throw refusal("the document with its aliases has more than \(Self.maximumBytes) bytes as JSON")
        }
    }

    private mutating func count(_ more: Int) throws(OpenAPIRoutes.Refusal) {
        nodes += more
        guard nodes <= Self.maximumNodes else {
            throw refusal("the document with its aliases has more than \(Self.maximumNodes) keys and values")
        }
    }

    private var tooDeep: OpenAPIRoutes.Refusal {
        refusal("mappings and lists are nested deeper than \(Self.maximumDepth) levels")
    }

    // MARK: - Errors

    private func refusal(_ detail: String) -> OpenAPIRoutes.Refusal {
        OpenAPIRoutes.Refusal(detail: "\(detail), at line \(mark.line), column \(mark.column)")
    }

    private static func failure(of parser: yaml_parser_t, _ text: [UInt8]) -> OpenAPIRoutes.Refusal {
        guard let problem = parser.problem else {
            return OpenAPIRoutes.Refusal(detail: "there is no memory for the document")
        }
        let reason = "the document is neither JSON nor YAML: \(String(cString: problem))"
        if parser.error == YAML_READER_ERROR {
            return OpenAPIRoutes.Refusal(detail: "\(reason), at \(TextPlace(parser.problem_offset, in: text))")
        }
        let place = "line \(parser.problem_mark.line + 1), column \(parser.problem_mark.column + 1)"
        let context = parser.context.map { " \(String(cString: $0))" } ?? ""
        return OpenAPIRoutes.Refusal(detail: "\(reason)\(context), at \(place)")
    }

    /// The first characters of a text from the document.
    private static func shown(_ text: String) -> String { text.count > 100 ? "\(text.prefix(100))…" : text }

    fileprivate static func quoted(_ text: String) -> [UInt8] {
        var writer = JSONWriter(capacity: text.utf8.count + 2)
        writer.string(text)
        return writer.bytes
    }
}

/// A scalar of a YAML document.
private struct YAMLScalar {
    static let coreTag = "tag:yaml.org,2002:"

    let text: String
    /// Whether the scalar has neither quotes nor a tag, so that its text decides its type.
    let isPlain: Bool
    let tag: String?
    let anchor: ByteExactString?

    init(_ event: yaml_event_t) {
        let scalar = event.data.scalar
        text = String(decoding: UnsafeBufferPointer(start: scalar.value, count: scalar.length), as: UTF8.self)
        isPlain = scalar.plain_implicit != 0 && scalar.style == YAML_PLAIN_SCALAR_STYLE
        tag = scalar.tag.map { String(cString: $0) }
        anchor = scalar.anchor.map { ByteExactString(String(cString: $0)) }
    }

    var quoted: [UInt8] { YAMLDocument.quoted(text) }

    /// The value as JSON; nil if its tag is not supported.
    var json: [UInt8]? {
        if isPlain { return typed }
        guard let tag else { return quoted }
        switch tag {
        case Self.coreTag + "str": return quoted
        case Self.coreTag + "null", Self.coreTag + "bool", Self.coreTag + "int", Self.coreTag + "float": return typed
        default: return nil
        }
    }

    /// The value by the core schema.
    private var typed: [UInt8] {
        switch text {
        case "", "~", "null", "Null", "NULL": return Array("null".utf8)
        case "true", "True", "TRUE": return Array("true".utf8)
        case "false", "False", "FALSE": return Array("false".utf8)
        default: return number ?? quoted
        }
    }

    /// The number in the grammar of JSON; nil if the text is not a finite number.
    private var number: [UInt8]? {
        var rest = Substring(text).utf8
        guard let first = rest.first, rest.count <= 200 else { return nil }
        for (prefix, radix) in [("0x", 16), ("0o", 8)] where text.hasPrefix(prefix) {
            return UInt64(text.dropFirst(2), radix: radix).map { Array("\($0)".utf8) }
        }
        let sign = first == UInt8(ascii: "-") || first == UInt8(ascii: "+")
        if sign { rest.removeFirst() }
        func digits() -> [UInt8] {
            let found = Array(rest.prefix { (48...57).contains($0) })
            rest.removeFirst(found.count)
            return found
        }
        let whole = digits()
        var number = first == UInt8(ascii: "-") ? [first] : []
        number += whole.drop { $0 == 48 }
        if whole.allSatisfy({ $0 == 48 }) { number.append(48) }
        var fraction: [UInt8] = []
        if rest.first == UInt8(ascii: ".") {
            rest.removeFirst()
            fraction = digits()
            if !fraction.isEmpty { number += [UInt8(ascii: ".")] + fraction }
        }
        guard !whole.isEmpty || !fraction.isEmpty else { return nil }
        if let letter = rest.first, letter | 0x20 == UInt8(ascii: "e") {
            rest.removeFirst()
            number.append(letter)
            if let sign = rest.first, sign == UInt8(ascii: "-") || sign == UInt8(ascii: "+") {
                number.append(sign)
                rest.removeFirst()
            }
            let exponent = digits()
            guard !exponent.isEmpty else { return nil }
            number += exponent
        }
        return rest.isEmpty ? number : nil
    }
}
