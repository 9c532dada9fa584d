import JSONText

extension Contract {
    /// Parameters, members and headers that can contain an id, an issuer's name for a user or organization, or a text
    /// with such names.
    static let namesOfIDs: Set<String> = [
        "id", "ids", "user", "user_id", "device_id", "local_id", "server_id", "idempotency_key", "client_ids",
        "dependency_ids", "into", "cursor", "since", "Last-Event-ID", "X-Sluice-Organization",
        "endpoint", "payload", "issuer", "subject", "external_id", "token_id", "event_id", "owner", "causing_key",
        "webhook", "delivery", "organization", "webhook-id", "organization_id", "mutation", "device", "operation_id",
        "channel", "channels", "received", "entity_id",
    ]

    /// The places in a listener's requests that can contain ids: `METHOD /path#parameter`, `METHOD
    /// /path#/body/pointer`.
    func placesOfIDs(ofOperations wanted: Bool) -> Set<String> {
        var places: Set<String> = []
        for (path, item) in pairs(root["paths"]) where (item["servers"] != nil) == wanted {
            for (method, operation) in pairs(item) where !["servers", "parameters"].contains(method) {
                let route = "\(method.uppercased()) \(path)#"
                let parameters = [item, operation].flatMap { $0["parameters"]?.elements.map { Array($0) } ?? [] }
                var names = parameters.compactMap { follow($0)["name"]?.string }
                let contents = operation["requestBody"].map { pairs(follow($0)["content"]) } ?? []
                for (_, content) in contents { names += members(of: content["schema"], at: "", within: []) }
                for name in names where Self.namesOfIDs.contains(name.split(separator: "/").last.map(String.init) ?? "")
                {
                    places.insert(route + name)
                }
            }
        }
        return places
    }

    /// The pointers of all members that a schema defines; the elements of arrays are number 0.
    private func members(of schema: JSONValue?, at pointer: String, within seen: Set<String>) -> [String] {
        guard let schema else { return [] }
        if let reference = schema["$ref"]?.string {
            return seen.contains(reference)
                ? [] : members(of: follow(schema), at: pointer, within: seen.union([reference]))
        }
        let parts = ["allOf", "anyOf", "oneOf"].flatMap { word in
            pairs(of: schema, word).flatMap { members(of: $0, at: pointer, within: seen) }
        }
        let own = pairs(schema["properties"]).flatMap { name, member in
            ["\(pointer)/\(name)"] + members(of: member, at: "\(pointer)/\(name)", within: seen)
        }
        return parts + own + members(of: schema["items"], at: pointer + "/0", within: seen)
    }

    private func follow(_ value: JSONValue) -> JSONValue {
        value["$ref"]?.string.flatMap { root.value(at: String($0.dropFirst())) } ?? value
    }

    private func pairs(_ value: JSONValue?) -> [(String, JSONValue)] {
        value?.members.map { $0.map { ($0.name.string, $0.value) } } ?? []
    }

    private func pairs(of value: JSONValue, _ word: String) -> [JSONValue] {
        value.value(at: "/" + word)?.elements.map { Array($0) } ?? []
    }
}
