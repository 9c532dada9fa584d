extension BuiltInStore {
    /// The result of a mutation in a transaction that applies it, or lets it wait.
    struct Result {
        var status: MutationStatus
        var serverID: ServerID?
        var version: Int64?
        var resolution: ConflictResolution?
        /// The status that a REST API would answer; nil for a mutation that waits.
        var responseStatus: Int16?
        /// A problem object as JSON.
        var error: [UInt8]?
        var lastError: String?
    }

    /// - Parameter index: the mutation's index in its push; nil where it is not applied in that push.
    static func apply(_ write: Write, type: String, index: Int?, to entities: inout EntityTable) -> Result {
        var shown: Set<EntityKey> = []
        return apply(write, type: type, index: index, showing: &shown, to: &entities)
    }

    /// - Parameters:
    ///   - index: the mutation's index in its push; nil where it is not applied in that push.
    ///   - shown: entities whose large documents an error of the same push has already; later errors leave them out.
    static func apply(
        _ write: Write,
        type: String,
        index: Int?,
        showing shown: inout Set<EntityKey>,
        to entities: inout EntityTable
    ) -> Result {
        let key = EntityKey(type: type, id: write.id.text)
        switch decide(write, on: entities[key]) {
        case .unchanged(let state):
            return Result(status: .succeeded, serverID: write.id, version: state?.version, responseStatus: 204)
        case .applied(let state, let resolution, let current):
            entities.write(key, state)
            return Result(
                status: .succeeded,
                serverID: write.id,
                version: state.version,
                resolution: resolution,
                responseStatus: write.operation == .create ? 201 : write.operation == .delete ? 204 : 200,
                error: current.map { conflict(write, key, $0, &shown).json }
            )
        case .adopted(let current):
            return Result(
                status: .discarded,
                serverID: write.id,
                version: current?.version,
                resolution: .serverWins,
                responseStatus: 409,
                error: conflict(write, key, current, &shown).json
            )
        case .conflict(let current):
            return Result(
                status: .conflict,
                serverID: write.operation == .create && write.idSpace.isServerGiven ? nil : write.id,
                responseStatus: 409,
                error: conflict(write, key, current, &shown).json,
                lastError: detail(of: write, current)
            )
        case .refused(let status, let detail):
            var problem = Problem(.upstreamRejected, detail)
            if let index {
                problem.errors = [ProblemDetail(pointer: "/mutations/\(index)", rule: "http_\(status)", detail: detail)]
            }
            return Result(
                status: .failed,
                serverID: write.operation == .create && write.idSpace.isServerGiven ? nil : write.id,
                responseStatus: Int16(status),
                error: problem.json,
                lastError: detail
            )
        }
    }

    private static func conflict(
        _ write: Write,
        _ key: EntityKey,
        _ current: EntityState?,
        _ shown: inout Set<EntityKey>
    ) -> Problem {
        var problem = Problem(.conflict, detail(of: write, current))
        guard let current else { return problem }
        problem.isCurrentOmitted = current.isLarge && !shown.insert(key).inserted
        problem.current = current.json(type: key.type, id: write.id, isOutline: problem.isCurrentOmitted)
        return problem
    }

    private static func detail(of write: Write, _ current: EntityState?) -> String {
        if let current, current.isDeleted {
            return current.lastWriter == write.writer
                ? "this device deleted the entity before" : "another writer deleted the entity"
        }
        if write.operation == .create { return "an entity with this id exists" }
        guard let current else { return "another writer changed the entity" }
        guard let base = write.baseVersion else { return "another writer changed the entity" }
        return current.run.conflictDescription(on: base)
    }
}
