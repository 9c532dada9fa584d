import FoundationEssentials
import JSONText
import SyncModel

/// Routes of entity types that are derived from an OpenAPI document of the upstream.
///
/// A collection is a path that accepts `POST`, or a path that another path extends by one parameter: `/contacts` is a
/// collection if `/contacts/{id}` exists. Each collection becomes an entity type. The type's name is the collection's
/// name in the singular.
struct OpenAPIRoutes: Sendable {
    /// The routes of one entity type.
    struct Proposal: Sendable {
        let type: String
        let routes: EntityRoutes
        /// Notes on details that a person should check.
        let remarks: [String]
    }

    /// The reason why a document cannot be used.
    struct Refusal: Error, Hashable {
        @Exact var detail: String
    }

    static let maximumBytes = 16_777_216

    private(set) var proposals: [Proposal] = []
    /// The paths without routes, each with the reason.
    private(set) var skipped: [String] = []
    /// The address of the first server.
    private(set) var server: String?

    private let text: [UInt8]

    init(_ text: [UInt8]) throws(Refusal) {
        self.text = text
        let root = try Self.root(of: text)
        guard let version = root.value(at: "/openapi")?.string, version.hasPrefix("3.") else {
            let found = root.value(at: "/swagger") ?? root.value(at: "/openapi") ?? root
            throw refusal("openapi must name a version of OpenAPI 3, such as 3.1.0", at: found)
        }
        guard let paths = root.value(at: "/paths")?.members else {
            throw refusal("paths must be an object", at: root.value(at: "/paths") ?? root)
        }
        server = root.value(at: "/servers/0/url")?.string
        var resources: [OpenAPIResource] = []
        for (name, item) in paths {
            guard item.kind == .object else { throw refusal("the path \(name.string) must be an object", at: item) }
            guard let path = OpenAPIPath(name.string) else {
                throw refusal("the path \(name.string) must begin with / and have balanced braces", at: item)
            }
            if let index = resources.firstIndex(where: { $0.key == path.key }) {
                resources[index].add(path, item)
            } else {
                resources.append(OpenAPIResource(path, item))
            }
        }
        var names: Set<ByteExactString> = []
        // if several collections have the same last word, the collection with the shortest path gets the plain name
        for resource in Self.joiningShallowPaths(resources).sorted(by: { $0.depth < $1.depth }) {
            guard resource.hasRoutes else {
                skipped.append("\(resource.path): no POST, PATCH, PUT or DELETE of a collection")
                continue
            }
            guard
                let type = resource.names.first(where: {
                    EntityType.isValidName($0) && !names.contains(ByteExactString($0))
                })
            else {
                skipped.append("\(resource.path): no free name for an entity type")
                continue
            }
            names.insert(ByteExactString(type))
            proposals.append(try proposal(resource, type, root))
        }
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

    private static func root(of text: [UInt8]) throws(Refusal) -> JSONValue {
        do throws(JSONParseError) {
            return try JSONTree(parsing: text, limits: .widest).root
        } catch {
            if isYAML(text) {
                let detail = "the document is YAML, and only JSON is read; convert it, for example with yq -o=json"
                throw Refusal(detail: detail)
            }
            throw Refusal(detail: error.explanation(in: text))
        }
    }

    /// Whether a text seems to be YAML: it does not begin with `{`, and one of its first lines begins with `openapi:`
    /// or `swagger:`.
    private static func isYAML(_ text: [UInt8]) -> Bool {
        text.first != UInt8(ascii: "{")
            && text.prefix(65_536).split(whereSeparator: { $0 == 10 || $0 == 13 }).contains { line in
                let words = line.drop { "\"' ".utf8.contains($0) }
                return ["openapi", "swagger"].contains { name in
                    guard words.starts(with: name.utf8) else { return false }
                    return words.dropFirst(name.utf8.count).drop { "\"' ".utf8.contains($0) }.first == UInt8(ascii: ":")
                }
            }
    }

    private func refusal(_ detail: String, at value: JSONValue) -> Refusal {
        Refusal(detail: "\(detail), at \(TextPlace(value.offset, in: text))")
    }

    private func proposal(_ resource: OpenAPIResource, _ type: String, _ root: JSONValue) throws(Refusal) -> Proposal {
        let id = resource.idPointer(type, root)
        let json = resource.routes(idPointer: id.pointer)
        var errors: [ProblemDetail] = []
        guard let tree = try? JSONTree(parsing: json) else { throw Refusal(detail: "\(type) has no routes") }
        let routes = EntityRoutes(tree.root, at: "/routes", &errors)
        if let error = errors.first {
            throw refusal("the routes of \(resource.path) cannot be used: \(error.detail)", at: resource.place)
        }
        return Proposal(type: type, routes: routes, remarks: resource.remarks + id.remarks)
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

    /// Nil if the path is malformed.
    init?(_ path: String) {
        guard path.hasPrefix("/") else { return nil }
        var segments = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
        let hasSlash = segments.count > 1 && segments.last?.isEmpty == true
        if hasSlash { segments.removeLast() }
        var (keys, templates, words) = ([String](), [String](), [String]())
        for segment in segments {
            guard let name = Self.parameter(segment) else {
                guard !segment.utf8.contains(where: { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "}") }) else {
                    return nil
                }
                (keys, templates, words) = (keys + [segment], templates + [segment], words + [segment])
                continue
            }
            (keys, templates) = (keys + ["{}"], templates + ["{\(JSONPointer().appending(member: name).text)}"])
        }
        let last = segments.last.flatMap { segments.count > 1 ? Self.parameter($0) : nil }
        if last != nil {
            keys.removeLast()
            templates[templates.count - 1] = "{id}"
        }
        idParameter = last
        key = keys.joined(separator: "/")
        template = "/" + templates.joined(separator: "/") + (hasSlash ? "/" : "")
        self.words = words
    }

    private static func parameter(_ segment: String) -> String? {
        guard segment.hasPrefix("{"), segment.hasSuffix("}") else { return nil }
        let name = String(segment.dropFirst().dropLast())
        return name.isEmpty || name.utf8.contains(where: { $0 == UInt8(ascii: "{") || $0 == UInt8(ascii: "}") })
            ? nil : name
    }
}
