/// The latest value for each entity, found by both of its possible names.
struct EntityIndex<Value> {
    private var byClientID: [ClientReference: Value] = [:]
    /// By the text of the id.
    ///
    /// An integer and a string of its digits are the same entity.
    private var byServerID: [EntityKey: Value] = [:]

    mutating func record(_ value: Value, of entity: EntityName) {
        if let name = entity.reference { byClientID[name] = value }
        if let id = entity.serverID { byServerID[EntityKey(type: entity.type, id: id.text)] = value }
    }

    /// The latest values under the client's name of an entity, and under the server's.
    func latest(of entity: EntityName) -> (Value?, Value?) {
        if byClientID.isEmpty, byServerID.isEmpty { return (nil, nil) }
        return (
            entity.reference.flatMap { byClientID[$0] },
            entity.serverID.flatMap { byServerID[EntityKey(type: entity.type, id: $0.text)] }
        )
    }
}
