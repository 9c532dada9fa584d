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

    /// The collection's path, as messages show it.
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

    /// The number of properties in the body of a create and in its successful response.
    func propertyCount(_ root: JSONValue) -> Int {
        guard let post = collection?.item.value(at: "/post") else { return 0 }
        let schemas = [Self.body(of: post, root), Self.answer(of: post, root)].compactMap { $0 }
        return schemas.flatMap { Self.parts(of: $0, root) }.reduce(0) { $0 + ($1.members.map(Self.count) ?? 0) }
    }

    private static func count(_ members: some Sequence) -> Int { members.reduce(0) { count, _ in count + 1 } }

    /// Returns the schema of an operation's request body.
    private static func body(of operation: JSONValue, _ root: JSONValue) -> JSONValue? {
        let body = operation.value(at: "/requestBody").flatMap { resolved($0, root) }
        let content = body?.value(at: "/content")?.members?.first { $0.name.string.contains("json") }?.value
        return content?.value(at: "/schema")
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
        let found = Dictionary(
            orderedProperties(of: schema, root).map { (ByteExactString($0.name), $0.schema) },
            uniquingKeysWith: { $1 }
        )
        return found.isEmpty ? nil : found
    }

    /// Returns the properties of an object's schema in document order, including those of the parts of `allOf`.
    private static func orderedProperties(
        of schema: JSONValue,
        _ root: JSONValue
    ) -> [(name: String, schema: JSONValue)] {
        parts(of: schema, root).flatMap { properties in
            properties.members?.map { ($0.name.string, $0.value) } ?? []
        }
    }

    /// Returns the objects with properties of a schema, including those of the parts of `allOf`.
    private static func parts(of schema: JSONValue, _ root: JSONValue) -> [JSONValue] {
        guard let schema = resolved(schema, root) else { return [] }
        return ([schema] + (schema.value(at: "/allOf")?.elements.map { Array($0) } ?? []))
            .compactMap { resolved($0, root)?.value(at: "/properties") }
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

/// A relation that a document suggests.
struct ProposedRelation: Sendable {
    /// The member of the entity's documents.
    let member: String
    /// The type of the entities to which the member refers.
    let type: String
    /// Whether the member contains an object with an id, and not an id.
    let isObject: Bool
}

/// The entity types that a document suggests, by the names under which other types refer to them.
struct OpenAPITypes: Sendable {
    private var names: Set<ByteExactString> = []
    private var byKey: [ByteExactString: String] = [:]

    init(_ named: [(type: String, resource: OpenAPIResource)]) {
        for (type, resource) in named {
            names.insert(ByteExactString(type))
            byKey[ByteExactString(resource.key)] = type
        }
    }

    /// Returns the type for a name, such as `contact` for `Contact` and `contacts`.
    func named(_ name: String) -> String? {
        let type = OpenAPIResource.singular(Self.snakeCase(name))
        return names.contains(ByteExactString(type)) ? type : nil
    }

    /// Returns the type for the name of a member with ids, such as `contact` for `contact_id`, `contactId` and
    /// `contact_ids`.
    func identified(by name: String) -> (type: String, isList: Bool)? {
        let name = Self.snakeCase(name)
        for (suffix, isList) in [("_id", false), ("_uuid", false), ("_ids", true), ("_uuids", true)]
        where name.hasSuffix(suffix) {
            return named(String(name.dropLast(suffix.count))).map { ($0, isList) }
        }
        return nil
    }

    /// The type of the entities in a collection.
    func collection(_ key: String) -> String? { byKey[ByteExactString(key)] }

    /// A name in lower case, in which an underscore separates the words: `contact_id` for `contactId` and `ContactID`.
    private static func snakeCase(_ name: String) -> String {
        var (result, wasUpper) = ("", true)
        for character in name.unicodeScalars {
            let isUpper = (65...90).contains(character.value)
            if isUpper, !wasUpper, !result.hasSuffix("_") { result += "_" }
            result.unicodeScalars.append(character)
            wasUpper = isUpper
        }
        return result.lowercased()
    }
}

extension OpenAPIResource {
    /// If the name of an extension (`x-…`) contains one of these words, its value is the name of an entity type.
    private static let relatingWords = ["ref", "relat", "foreign", "entity", "resource", "target"]
    /// Formats of strings that are no ids.
    private static let otherFormats = ["date", "date-time", "time", "duration", "email", "uri", "byte", "binary"]

    /// Returns the relations of the entities to other types, in document order. There are at most ``Relation/limit``.
    ///
    /// A property in the body of a create is a relation if its name, its `$ref` or an extension (`x-…`) names another
    /// type. A parameter of the path is a relation to the type of the collection that precedes the parameter.
    func relations(of type: String, to types: OpenAPITypes, _ root: JSONValue) -> [ProposedRelation] {
        guard let collection, let post = collection.item.value(at: "/post") else { return [] }
        var found: [ProposedRelation] = []
        var members: Set<ByteExactString> = []
        func add(_ relation: ProposedRelation) {
            guard found.count < Relation.limit, Relation.isValidMember(relation.member),
                members.insert(ByteExactString(relation.member)).inserted
            else { return }
            found.append(relation)
        }
        for (parameter, key) in collection.path.parents {
            guard let parent = types.collection(key) else { continue }
            add(ProposedRelation(member: parameter, type: parent, isObject: false))
        }
        guard let schema = Self.body(of: post, root) else { return found }
        for (name, property) in Self.orderedProperties(of: schema, root) {
            if let relation = Self.relation(name, property, of: type, to: types, root) { add(relation) }
        }
        return found
    }

    private static func relation(
        _ name: String,
        _ property: JSONValue,
        of type: String,
        to types: OpenAPITypes,
        _ root: JSONValue
    ) -> ProposedRelation? {
        let single = unwrapped(property)
        let list = resolved(single, root)?.value(at: "/items").map(unwrapped)
        let value = list ?? single
        let isObject = isObjectWithID(value, root)
        guard isObject || isID(value, root) else { return nil }
        for schema in [property, single, value] {
            if let target = extensionTarget(schema, types) {
                return ProposedRelation(member: name, type: target, isObject: isObject)
            }
        }
        let schemaName = value.value(at: "/$ref")?.string?.split(separator: "/").last.map(String.init)
        if isObject {
            guard let target = schemaName.flatMap(types.named) ?? types.named(name) else { return nil }
            return ProposedRelation(member: name, type: target, isObject: true)
        }
        let byName = types.identified(by: name).flatMap { $0.isList == (list != nil) ? $0.type : nil }
        // in a contact's documents, a member like contact_id is the contact's own id, and not a relation
        let byOther = byName.flatMap { $0 == type ? nil : $0 }
        guard let target = byOther ?? schemaName.flatMap({ types.identified(by: $0) })?.type, target != type else {
            return nil
        }
        return ProposedRelation(member: name, type: target, isObject: false)
    }

    /// The type that an extension (`x-…`) of a schema names.
    private static func extensionTarget(_ schema: JSONValue, _ types: OpenAPITypes) -> String? {
        for (name, value) in schema.members?.map({ $0 }) ?? [] {
            let name = name.string.lowercased()
            guard name.hasPrefix("x-"), relatingWords.contains(where: { name.contains($0) }),
                let text = value.string, let last = text.split(separator: "/").last,
                let type = types.named(String(last))
            else { continue }
            return type
        }
        return nil
    }

    /// The only schema in `allOf`, `oneOf` or `anyOf` that is not `null`, because a reference often has such a wrapper.
    private static func unwrapped(_ schema: JSONValue) -> JSONValue {
        for name in ["/allOf", "/oneOf", "/anyOf"] {
            let parts = schema.value(at: name)?.elements?.filter { $0.value(at: "/type")?.string != "null" } ?? []
            if parts.count == 1 { return parts[0] }
        }
        return schema
    }

    private static func isObjectWithID(_ schema: JSONValue, _ root: JSONValue) -> Bool {
        properties(of: schema, root)?[ByteExactString("id")] != nil
    }

    /// Whether a schema permits ids: texts or integers.
    private static func isID(_ schema: JSONValue, _ root: JSONValue) -> Bool {
        guard let schema = resolved(schema, root), schema.value(at: "/enum") == nil else { return false }
        if let format = schema.value(at: "/format")?.string, otherFormats.contains(format) { return false }
        let type = schema.value(at: "/type")
        let names = type?.elements?.compactMap(\.string) ?? [type?.string].compactMap { $0 }
        guard !names.isEmpty else { return schema.value(at: "/properties") == nil }
        return names.contains { ["string", "integer"].contains($0) }
    }
}
