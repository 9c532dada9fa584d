import Foundation

/// An entry of a push that is taken, and what it waits for.
struct JudgedMutation {
    /// What a client id leads to.
    enum Target {
        case server(ServerID)
        /// Not resolved before this entry of the push has run.
        case entry(Int)
        /// Not resolved before this mutation of the store has run.
        case mutation(UUID)
    }

    let index: Int
    let mutation: Mutation
    let type: EntityType
    /// Mutations of the store that must succeed first.
    var stored: [UUID] = []
    /// Entries of this push that must succeed first.
    private(set) var entries: [Int] = []
    /// Where the client ids in endpoint and payload lead, and the types that they were created in.
    private(set) var references: [UUID: (type: String, target: Target)] = [:]

    init(index: Int, mutation: Mutation, type: EntityType) {
        self.index = index
        self.mutation = mutation
        self.type = type
    }

    /// Notes where a client id leads.
    mutating func refer(to id: UUID, of type: String, _ target: Target) { references[id] = (type, target) }

    /// Notes an entry of the push that must succeed first.
    mutating func wait(forEntry index: Int) {
        if !entries.contains(index) { entries.append(index) }
    }

    /// Notes a mutation of the store that must succeed first.
    mutating func wait(for id: UUID) {
        if !stored.contains(id) { stored.append(id) }
    }

    /// What is put in place when its turn comes, sorted.
    var clientReferences: [ClientReference] {
        references.map { ClientReference(clientID: $0, entityType: $1.type) }.sorted { $0.clientID < $1.clientID }
    }
}
