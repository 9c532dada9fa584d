package import SyncModel

extension StoreFailure {
    /// Runs `body` against the database; its errors become problems for the caller.
    nonisolated(nonsending) package func reporting<Value>(
        _ what: StaticString,
        _ body: nonisolated(nonsending) () async throws -> Value
    ) async throws(Problem) -> Value {
        do {
            return try await body()
        } catch {
            throw problem(error, doing: what)
        }
    }
}
