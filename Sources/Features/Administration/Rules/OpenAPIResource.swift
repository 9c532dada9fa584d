import JSONText
import SyncModel

/// A collection of an OpenAPI document, with the path of its entities.
struct OpenAPIResource: Sendable {
    private static let wrappers = ["data", "result", "item"]
    private static let maximumReferences = 16

    private var collection: (path: OpenAPIPath, item: JSONValue)?
    private var entity: (path: OpenAPIPath, item: JSONValue)?
    let key: String

    init(_ path: OpenAPIPath, _ item: JSONValue) {
        key = path.key
        place = item
        add(path, item)
    }

    mutating func add(_ path: OpenAPIPath, _ item: JSONValue) {
        if path.idParameter == nil { collection = (path, item) } else { entity = (path, item) }
    }

    /// The collection's path for messages.
    var path: String { "/" + key }

    /// The collection's value in the document. Error messages contain the line of this value.
    let place: JSONValue

    var hasRoutes: Bool { !operations.isEmpty }

    /// The operations that have a route, each with the route's path.
    private var operations: [(operation: SyncModel.Operation, path: String)] {
        var operations: [(operation: SyncModel.Operation, path: String)] = []
        if let collection, collection.item.value(at: "/post") != nil {
            operations.append((.create, collection.path.template))
        }
        guard let entity else { return operations }
        for (operation, method) in [(SyncModel.Operation.update, "/patch"), (.replace, "/put"), (.delete, "/delete")]
        where entity.item.value(at: method) != nil {
            operations.append((operation, entity.path.template))
        }
        return operations
    }

    var depth: Int { [collection, entity].compactMap { $0?.path.words.count }.min() ?? 0 }

    /// Whether the entities have other operations, but cannot be created at this path.
    var lacksCreate: Bool { hasRoutes && collection?.item.value(at: "/post") == nil }

    /// Whether the only operation at this path creates entities.
    var onlyCreates: Bool { operations.map(\.operation) == [.create] }

    /// The last segment of the collection's path that is not a parameter.
    var word: ByteExactString? { (collection ?? entity)?.path.words.last.map { ByteExactString($0) } }

    /// Takes over the path at which another collection creates entities.
    mutating func takeCreate(of nested: OpenAPIResource) { collection = nested.collection }

    /// Possible names of the entity type, the best first.
    var names: [String] {
        let words = (collection ?? entity)?.path.words.map(Self.singular) ?? []
        return words.indices.reversed().map { words[$0...].joined(separator: "_") }
    }

    var remarks: [String] {
        let names = Set(operations.map(\.operation))
        var remarks: [String] = []
        if !names.contains(.create) { remarks.append("no POST: entities cannot be created") }
        if !names.contains(.update), names.contains(.replace) {
            remarks.append("no PATCH: apps push a replace instead of an update")
        }
        if operations.contains(where: { $0.path.contains("{/") }) {
            remarks.append("the payload must contain each member that a path names as {/member}")
        }
        if !names.contains(.delete) { remarks.append("no DELETE: entities cannot be deleted") }
        return remarks
    }

    /// The routes as JSON. The short form is used if the collection has the usual paths.
    func routes(idPointer: String?) -> [UInt8] {
        let operations = operations
        let base = collection?.path.template ?? ""
        let isUsual =
            idPointer == nil && !base.isEmpty && !base.hasSuffix("/")
            && operations.allSatisfy { $0.path == ($0.operation == .create ? base : base + "/{id}") }
        return JSONWriter.object { writer in
            if isUsual { writer.member("collection", base) }
            for operation in SyncModel.Operation.allCases {
                guard let route = operations.first(where: { $0.operation == operation }) else {
                    if isUsual {
                        writer.name(operation.rawValue)
                        writer.null()
                    }
                    continue
                }
                if isUsual { continue }
                writer.name(operation.rawValue)
                writer.object { writer in
                    writer.member("path", route.path)
                    if let idPointer, operation != .delete { writer.member("id_pointer", idPointer) }
                }
            }
        }
    }

    /// Returns the pointer to the entity's id in the response to a create, and remarks for a person.
    ///
    /// The pointer is nil if the default pointer of upstreams applies.
    func idPointer(_ type: String, _ root: JSONValue) -> (pointer: String?, remarks: [String]) {
        guard let post = collection?.item.value(at: "/post") else { return (nil, []) }
        guard let schema = Self.answer(of: post, root), let members = Self.properties(of: schema, root) else {
            return (nil, ["the answer to POST has no schema: the id is expected at /id"])
        }
        let names = ["id", entity?.path.idParameter, type + "_id", type + "Id", "uuid", "_id"].compactMap { $0 }
        if let name = names.first(where: { members[ByteExactString($0)] != nil }) {
            return (name == "id" ? nil : "/" + name, [])
        }
        for wrapper in Self.wrappers + [type] {
            guard let inner = members[ByteExactString(wrapper)].flatMap({ Self.properties(of: $0, root) }) else {
                continue
            }
            if let name = names.first(where: { inner[ByteExactString($0)] != nil }) {
                return ("/\(wrapper)/\(name)", [])
            }
        }
        return (nil, ["the answer to POST has no member like id: set id_pointer"])
    }

    /// Returns the schema of an operation's successful response.
    private static func answer(of operation: JSONValue, _ root: JSONValue) -> JSONValue? {
        for status in ["201", "200", "2XX", "202", "default"] {
            guard let answer = operation.value(at: "/responses/\(status)").flatMap({ resolved($0, root) }) else {
                continue
            }
            let schema = answer.value(at: "/content")?.members?.first { $0.name.string.contains("json") }?.value
            if let schema = schema?.value(at: "/schema") { return schema }
        }
        return nil
    }

    /// Returns the properties of an object's schema, including those of the parts of `allOf`.
    private static func properties(of schema: JSONValue, _ root: JSONValue) -> [ByteExactString: JSONValue]? {
        guard let schema = resolved(schema, root) else { return nil }
        var found: [ByteExactString: JSONValue] = [:]
        for part in [schema] + (schema.value(at: "/allOf")?.elements.map { Array($0) } ?? []) {
            resolved(part, root)?.value(at: "/properties")?.members?.forEach {
                found[ByteExactString($0.name.string)] = $0.value
            }
        }
        return found.isEmpty ? nil : found
    }

    /// Resolves references within the document.
    private static func resolved(_ value: JSONValue, _ root: JSONValue) -> JSONValue? {
        var value = value
        for _ in 0..<maximumReferences {
            guard let reference = value.value(at: "/$ref")?.string else { return value }
            guard reference.hasPrefix("#/"), let target = root.value(at: String(reference.dropFirst())) else {
                return nil
            }
            value = target
        }
        return nil
    }

    /// A collection's name in the singular, in the form of an entity type's name.
    static func singular(_ word: String) -> String {
        let name = String(word.lowercased().map { $0.isASCII && ($0.isLetter || $0.isNumber) || $0 == "-" ? $0 : "_" })
        if name.hasSuffix("ies"), name.count > 4 { return name.dropLast(3) + "y" }
        for end in ["sses", "xes", "ches", "shes", "zes"] where name.hasSuffix(end) { return String(name.dropLast(2)) }
        let keeps = ["ss", "us", "is"].contains { name.hasSuffix($0) }
        return name.hasSuffix("s") && !keeps && name.count > 2 ? String(name.dropLast()) : name
    }
}
