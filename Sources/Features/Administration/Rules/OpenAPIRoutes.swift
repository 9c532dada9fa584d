import FoundationEssentials
import JSONText
import SyncModel

/// Routes of entity types that are derived from an OpenAPI document of the upstream.
///
/// A collection is a path that accepts `POST`, or a path that another path extends by one parameter: `/contacts` is a
/// collection if `/contacts/{id}` exists. Each collection becomes an entity type. The type's name is the collection's
/// name in the singular.
struct OpenAPIRoutes: Sendable {
    /// The routes and relations of one entity type.
    struct Proposal: Sendable {
        let type: String
        let routes: EntityRoutes
        let relations: [ProposedRelation]
        /// Notes on details that a person should check.
        let remarks: [String]
    }

    /// The reason why a document cannot be used.
    struct Refusal: Error, Hashable {
        @Exact var detail: String
    }

    static let maximumBytes = 16_777_216
    /// The maximum number of properties of all types together. A schema counts for each type that refers to it.
    static let maximumProperties = 300_000

    private(set) var proposals: [Proposal] = []
    /// The paths without routes, each with the reason.
    private(set) var skipped: [String] = []
    /// The address of the first server.
    private(set) var server: String?

    private let source: Source

    /// - Parameter text: the document in JSON or YAML.
    init(_ text: [UInt8]) throws(Refusal) {
        source = try Source(text)
        let root = try source.root()
        guard let version = root.value(at: "/openapi")?.string, version.hasPrefix("3.") else {
            let found = root.value(at: "/swagger") ?? root.value(at: "/openapi") ?? root
            throw refusal("openapi must name a version of OpenAPI 3, such as 3.1.0", at: found)
        }
        server = root.value(at: "/servers/0/url")?.string
        let resources = try resources(root)
        let found = named(Self.joiningShallowPaths(resources))
        var properties = 0
        for (_, resource) in found {
            properties += resource.propertyCount(root)
            guard properties <= Self.maximumProperties else {
                let detail =
                    "the types have more than \(Self.maximumProperties) properties together; a schema counts for each"
                throw Refusal(detail: detail + " type that refers to it. Split the document")
            }
        }
        let types = OpenAPITypes(found)
        for (type, resource) in found { proposals.append(try proposal(resource, type, types, root)) }
    }

    /// Returns the collections of the document, in the order of their first paths. Paths that no route can have are
    /// added to ``skipped``.
    private mutating func resources(_ root: JSONValue) throws(Refusal) -> [OpenAPIResource] {
        guard let paths = root.value(at: "/paths")?.members else {
            throw refusal("paths must be an object", at: root.value(at: "/paths") ?? root)
        }
        var resources: [OpenAPIResource] = []
        var indices: [ByteExactString: Int] = [:]
        for (name, item) in paths {
            guard item.kind == .object else { throw refusal("the path \(name.string) must be an object", at: item) }
            guard OpenAPIPath.isWellFormed(name.string) else {
                throw refusal("the path \(name.string) must begin with / and have balanced braces", at: item)
            }
            guard let path = OpenAPIPath(name.string) else {
                skipped.append("\(name.string): a parameter is only a part of a segment")
                continue
            }
            if let index = indices[ByteExactString(path.key)] {
                resources[index].add(path, item)
            } else {
                indices[ByteExactString(path.key)] = resources.count
                resources.append(OpenAPIResource(path, item))
            }
        }
        return resources
    }

    /// Returns the collections that become entity types, with the types' names. Adds all other collections to
    /// ``skipped``.
    private mutating func named(_ resources: [OpenAPIResource]) -> [(type: String, resource: OpenAPIResource)] {
        var names: Set<ByteExactString> = []
        var named: [(type: String, resource: OpenAPIResource)] = []
        // if several collections have the same last word, the collection with the shortest path gets the plain name
        for resource in resources.sorted(by: { $0.depth < $1.depth }) {
            guard resource.hasRoutes else {
                skipped.append("\(resource.path): no POST, PATCH, PUT or DELETE of a collection")
                continue
            }
            let free = resource.names.first { EntityType.isValidName($0) && !names.contains(ByteExactString($0)) }
            guard let type = free else {
                skipped.append("\(resource.path): no free name for an entity type")
                continue
            }
            names.insert(ByteExactString(type))
            named.append((type, resource))
        }
        return named
    }

    /// Joins a collection that only creates entities, such as `POST /lists/{list}/items`, with the shorter path of
    /// these entities, such as `/items/{item}`.
    private static func joiningShallowPaths(_ resources: [OpenAPIResource]) -> [OpenAPIResource] {
        var nested: [ByteExactString: [Int]] = [:]
        for (index, resource) in resources.enumerated() where resource.depth > 1 && resource.onlyCreates {
            if let word = resource.word { nested[word, default: []].append(index) }
        }
        var (joined, taken) = (resources, Set<Int>())
        for (index, resource) in resources.enumerated() where resource.depth == 1 && resource.lacksCreate {
            // if several collections have this last word, the path that creates the entities is ambiguous
            guard let word = resource.word, let found = nested[word], found.count == 1 else { continue }
            joined[index].takeCreate(of: resources[found[0]])
            taken.insert(found[0])
        }
        return joined.enumerated().filter { !taken.contains($0.offset) }.map(\.element)
    }

    private func refusal(_ detail: String, at value: JSONValue) -> Refusal {
        Refusal(detail: "\(detail), at \(source.place(of: value))")
    }

    private func proposal(
        _ resource: OpenAPIResource,
        _ type: String,
        _ types: OpenAPITypes,
        _ root: JSONValue
    ) throws(Refusal) -> Proposal {
        let id = resource.idPointer(type, root)
        let json = resource.routes(idPointer: id.pointer)
        var errors: [ProblemDetail] = []
        guard let tree = try? JSONTree(parsing: json) else { throw Refusal(detail: "\(type) has no routes") }
        let routes = EntityRoutes(tree.root, at: "/routes", &errors)
        if let error = errors.first {
            throw refusal("the routes of \(resource.path) cannot be used: \(error.detail)", at: resource.place)
        }
        let relations = resource.relations(of: type, to: types, root)
        var remarks = resource.remarks + id.remarks
        if relations.count == Relation.limit {
            remarks.append("more than \(Relation.limit) relations are not proposed")
        }
        for relation in relations where relation.isObject {
            remarks.append(
                "\(relation.member) contains an object: local ids of the id space device are not translated in it"
            )
        }
        return Proposal(type: type, routes: routes, relations: relations, remarks: remarks)
    }

    /// The text of the document, in JSON or YAML.
    private enum Source: Sendable {
        case json([UInt8])
        case yaml(YAMLDocument)

        /// A text that begins with `{` or `[` is JSON. All other texts are read as YAML.
        init(_ text: [UInt8]) throws(Refusal) {
            let text = text.withoutByteOrderMark
            let first = text.first { ![9, 10, 13, 32].contains($0) }
            let isJSON = first == UInt8(ascii: "{") || first == UInt8(ascii: "[")
            self = isJSON ? .json(text) : .yaml(try YAMLDocument(text))
        }

        func root() throws(Refusal) -> JSONValue {
            let text =
                switch self {
                case .json(let text): text
                case .yaml(let document): document.json
                }
            do throws(JSONParseError) {
                return try JSONTree(parsing: text, limits: .widest).root
            } catch {
                throw Refusal(detail: error.explanation(in: text))
            }
        }

        func place(of value: JSONValue) -> String {
            switch self {
            case .json(let text): "\(TextPlace(value.offset, in: text))"
            case .yaml(let document): document.place(of: value.offset)
            }
        }
    }
}

/// A path of an OpenAPI document. It is the path of a collection, or of an entity in a collection.
struct OpenAPIPath: Sendable {
    /// The key of the collection. The path of a collection and the path of its entities have the same key.
    let key: String
    /// The template of a route.
    let template: String
    /// The name of the parameter with the entity's id; nil for a collection.
    let idParameter: String?
    /// The segments of the path that are not parameters.
    let words: [String]
    /// The other parameters, each with the key of the collection before it.
    let parents: [(parameter: String, key: String)]

    /// Whether the path begins with a slash, and each parameter is in braces.
    static func isWellFormed(_ path: String) -> Bool {
        var isOpen = false
        for byte in path.utf8 where byte == UInt8(ascii: "{") || byte == UInt8(ascii: "}") {
            guard isOpen == (byte == UInt8(ascii: "}")) else { return false }
            isOpen.toggle()
        }
        return path.hasPrefix("/") && !isOpen
    }

    /// Nil if the path is malformed, or if a parameter is only a part of a segment, such as `/files/{id}.pdf`.
    init?(_ path: String) {
        guard path.hasPrefix("/") else { return nil }
        var segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        let hasSlash = segments.count > 1 && segments.last?.isEmpty == true
        if hasSlash { segments.removeLast() }
        var (keys, templates, words) = ([String](), [String](), [String]())
        var parents: [(parameter: String, key: String)] = []
        for segment in segments {
            guard let name = Self.parameter(segment) else {
                guard !segment.utf8.contains(where: { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "}") }) else {
                    return nil
                }
                (keys, templates, words) = (keys + [segment], templates + [segment], words + [segment])
                continue
            }
            parents.append((name, keys.joined(separator: "/")))
            (keys, templates) = (keys + ["{}"], templates + ["{\(JSONPointer().appending(member: name).text)}"])
        }
        let last = segments.last.flatMap { segments.count > 1 ? Self.parameter($0) : nil }
        if last != nil {
            keys.removeLast()
            parents.removeLast()
            templates[templates.count - 1] = "{id}"
        }
        idParameter = last
        key = keys.joined(separator: "/")
        template = "/" + templates.joined(separator: "/") + (hasSlash ? "/" : "")
        self.words = words
        self.parents = parents
    }

    private static func parameter(_ segment: String) -> String? {
        guard segment.hasPrefix("{"), segment.hasSuffix("}") else { return nil }
        let name = String(segment.dropFirst().dropLast())
        return name.isEmpty || name.utf8.contains(where: { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "}") })
            ? nil : name
    }
}
