public import JSONText

/// The form of the requests for an operation on the entities of a type.
public struct EntityRoute: Sendable, Hashable {
    static let methods = ["POST", "PUT", "PATCH", "DELETE"]

    /// The HTTP method, which is one of ``methods``.
    @Exact public var method: String
    public var path: PathTemplate
    /// The template for the body; nil if the payload is the body.
    public var body: BodyTemplate?
    /// The JSON Pointer to the entity's id in an answer; nil for the upstream's pointer.
    @Exact public var idPointer: String? = nil
    /// The JSON Pointer to the entity's document in an answer; nil for the object that contains the id.
    @Exact public var documentPointer: String? = nil
    /// The rules for answers, which apply before the upstream's rules.
    public var outcomes: [OutcomeRule] = []

    /// Whether each request of the route contains the entity's server id.
    ///
    /// If true, the operator's settings ensure that an answer refers to this entity.
    var namesEntity: Bool { path.namesEntity || body?.namesEntity ?? false }
}

/// The routes of an entity type, by operation (product rule 20).
public struct EntityRoutes: Sendable, Hashable {
    /// The routes as the operator wrote them.
    public let json: [UInt8]
    public private(set) var routes: [Operation: EntityRoute] = [:]
    /// Whether the routes also apply to mutations that have an `endpoint`.
    public private(set) var ignoresEndpoint = false

    /// The route of a mutation; nil if the mutation is sent to its own endpoint or is not sent.
    ///
    /// The route of `replace` is also used in two other cases: if a request overrides a conflict with a whole document,
    /// and if a create overrides an existing entity.
    ///
    /// - Parameter always: whether the mutation's own endpoint is ignored even if ``ignoresEndpoint`` is false.
    func route(of mutation: QueuedMutation, always: Bool = false) -> EntityRoute? {
        let hasOwnEndpoint = mutation.endpoint != nil && !ignoresEndpoint || mutation.override?.endpoint != nil
        guard always || !hasOwnEndpoint else { return nil }
        guard let override = mutation.override else { return routes[mutation.operation] }
        if mutation.operation == .create { return routes[.replace] }
        return override.payload == nil ? routes[mutation.operation] : routes[.replace] ?? routes[mutation.operation]
    }

    /// Whether a new mutation with this operation needs no endpoint, because the operation has a route.
    public func has(_ operation: Operation) -> Bool { routes[operation] != nil }

    /// The reason why a type cannot have these routes; nil if the type can have them.
    ///
    /// If the upstream assigns the ids, the route of a create cannot contain the entity's server id.
    public func problem(in idSpace: IDSpace) -> ProblemDetail? {
        guard idSpace.isServerGiven, let create = routes[.create], create.namesEntity else { return nil }
        return ProblemDetail(
            pointer: "/routes/create" + (create.path.namesEntity ? "/path" : "/body"),
            rule: Rule.range,
            detail: "a create has no server id in the id space '\(idSpace.rawValue)': leave out the id, or use 'shared'"
        )
    }
}

// MARK: - Reading

extension EntityRoutes {
    private static let what = "routes: collection, endpoint, create, update, replace, delete"
    private static let whatRoute = "a route: method, path, body, id_pointer, document_pointer, outcomes"

    /// Reads routes. If the routes have errors, appends them to `errors`.
    ///
    /// - Parameter pointer: the JSON Pointer to the routes.
    public init(_ value: JSONValue, at pointer: String, _ errors: inout [ProblemDetail]) {
        json = Array(value.raw)
        guard let members = value.members else {
            let detail = #"routes must be an object, like {"collection": "/contacts"}"#
            errors.append(ProblemDetail(pointer: pointer, rule: Rule.memberType, detail: detail))
            return
        }
        if let collection = value.value(at: "/collection") {
            read(collection: collection, at: pointer + "/collection", &errors)
        }
        for (name, value) in members {
            let place = pointer + JSONPointer().appending(member: name.string).text
            switch name.string {
            case "collection": break
            case "endpoint":
                switch value.string {
                case "ignore": ignoresEndpoint = true
                case "keep": ignoresEndpoint = false
                default:
                    let detail = "endpoint must be keep (a mutation's own endpoint comes first) or ignore"
                    errors.append(ProblemDetail(pointer: place, rule: Rule.range, detail: detail))
                }
            default:
                guard let operation = Operation(rawValue: name.string) else {
                    let detail = UnknownMember.detail(name.string, of: Self.what)
                    errors.append(ProblemDetail(pointer: place, rule: Rule.unknownMember, detail: detail))
                    continue
                }
                // a null removes a route that the collection defines
                routes[operation] = value.isNull ? nil : Self.route(value, of: operation, at: place, &errors)
            }
        }
    }

    /// Reads the stored form. Routes that this version cannot read are omitted.
    public init(stored value: JSONValue) {
        var errors: [ProblemDetail] = []
        self.init(value, at: "/routes", &errors)
    }

    /// The usual routes of a REST collection.
    private mutating func read(collection value: JSONValue, at pointer: String, _ errors: inout [ProblemDetail]) {
        guard let text = value.string else {
            let detail = "collection must be a path, like /contacts"
            errors.append(ProblemDetail(pointer: pointer, rule: Rule.memberType, detail: detail))
            return
        }
        guard !text.utf8.contains(UInt8(ascii: "?")), text.utf8.last != UInt8(ascii: "/") else {
            let detail = "collection must have no query and no slash at its end; use a route of the operation for that"
            errors.append(ProblemDetail(pointer: pointer, rule: Rule.endpoint, detail: detail))
            return
        }
        do throws(Endpoint.Malformed) {
            let (all, one) = (try PathTemplate(text), try PathTemplate(text + "/{id}"))
            for operation in Operation.allCases {
                routes[operation] = EntityRoute(method: operation.method, path: operation == .create ? all : one)
            }
        } catch {
            let detail = "collection \(error.reason)"
            errors.append(ProblemDetail(pointer: pointer, rule: Rule.endpoint, detail: detail))
        }
    }

    private static func route(
        _ value: JSONValue,
        of operation: Operation,
        at place: String,
        _ errors: inout [ProblemDetail]
    ) -> EntityRoute? {
        func refuse(_ member: String, _ rule: String, _ detail: String) {
            errors.append(ProblemDetail(pointer: place + member, rule: rule, detail: detail))
        }
        guard let members = value.members else {
            refuse("", Rule.memberType, #"a route must be an object, like {"method": "POST", "path": "/contacts"}"#)
            return nil
        }
        var (method, path) = (operation.method, PathTemplate?.none)
        var (body, idPointer, documentPointer) = (BodyTemplate?.none, String?.none, String?.none)
        var outcomes: [OutcomeRule] = []
        for (name, value) in members {
            switch name.string {
            case "method":
                method = value.string ?? ""
                if !EntityRoute.methods.contains(method) {
                    refuse(
                        "/method",
                        Rule.range,
                        "method must be one of " + EntityRoute.methods.joined(separator: ", ")
                    )
                }
            case "path":
                do throws(Endpoint.Malformed) {
                    guard let text = value.string else { throw Endpoint.Malformed("must be a string") }
                    path = try PathTemplate(text)
                } catch {
                    refuse("/path", Rule.endpoint, "path \(error.reason)")
                }
            case "body": body = BodyTemplate(value, at: place + "/body", &errors)
            case "id_pointer":
                idPointer = pointer(value, minimum: 1)
                if idPointer == nil { refuse("/id_pointer", Rule.range, pointerDetail("id_pointer", "/id")) }
            case "document_pointer":
                documentPointer = pointer(value, minimum: 0)
                if documentPointer == nil {
                    refuse("/document_pointer", Rule.range, pointerDetail("document_pointer", "/data"))
                }
            case "outcomes": outcomes = OutcomeRule.rules(value, at: place + "/outcomes", &errors)
            default:
                let pointer = JSONPointer().appending(member: name.string).text
                refuse(pointer, Rule.unknownMember, UnknownMember.detail(name.string, of: whatRoute))
            }
        }
        if value.value(at: "/path") == nil { refuse("/path", Rule.required, "a route has a path") }
        guard let path else { return nil }
        return EntityRoute(
            method: method,
            path: path,
            body: body,
            idPointer: idPointer,
            documentPointer: documentPointer,
            outcomes: outcomes
        )
    }

    private static func pointer(_ value: JSONValue, minimum: Int) -> String? {
        guard let text = value.string, (minimum...200).contains(text.utf8.count), JSONPointer.isValid(text) else {
            return nil
        }
        return text
    }

    private static func pointerDetail(_ name: String, _ example: String) -> String {
        "\(name) must be a JSON Pointer (RFC 6901) of at most 200 bytes, like \(example)"
    }
}
