package import SyncModel

extension StoreFailure {
    /// Does something with the database; what goes wrong with it is a problem of the caller's.
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
