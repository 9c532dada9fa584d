import Foundation

/// An accepted entry of a push, and its dependencies.
struct ValidatedMutation {
    /// The target of a client id.
    enum Target {
        case server(ServerID)
        /// Unresolved until this entry of the push has run.
        case entry(Int)
        /// Unresolved until this stored mutation has run.
        case mutation(UUID)
    }

    let index: Int
    let mutation: Mutation
    let type: EntityType
    /// Stored mutations that must succeed first.
    var stored: [UUID] = []
    /// Entries of this push that must succeed first.
    private(set) var entries: [Int] = []
    /// The targets of the client ids in endpoint and payload.
    ///
    /// Each has the type in which the client id was created.
    private(set) var references: [UUID: (type: String, target: Target)] = [:]

    init(index: Int, mutation: Mutation, type: EntityType) {
        self.index = index
        self.mutation = mutation
        self.type = type
    }

    mutating func refer(to id: UUID, of type: String, _ target: Target) { references[id] = (type, target) }

    mutating func wait(forEntry index: Int) {
        if !entries.contains(index) { entries.append(index) }
    }

    mutating func wait(for id: UUID) {
        if !stored.contains(id) { stored.append(id) }
    }

    /// The client ids to replace when the mutation's turn comes, sorted.
    var clientReferences: [ClientReference] {
        references.map { ClientReference(clientID: $0, entityType: $1.type) }.sorted { $0.clientID < $1.clientID }
    }
}
