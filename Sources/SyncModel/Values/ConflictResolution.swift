/// How a conflict is settled (seed 001, `conflict_resolution`).
public enum ConflictResolution: String, Sendable, Hashable, CaseIterable {
    /// Waits for a person.
    case manual
    /// Discards the mutation and adopts the server's entity.
    case serverWins = "server_wins"
    /// Overwrites the state that the other writer left.
    case clientWins = "client_wins"
}
