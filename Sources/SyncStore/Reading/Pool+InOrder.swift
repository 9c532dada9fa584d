import Postgres

extension Pool {
    /// Nothing is sorted: there is an index in the order.
    static let orderShape = Statement(
        "order_shape",
        "SELECT set_config('enable_sort', 'off', true), set_config('enable_incremental_sort', 'off', true)"
    )

    /// Runs a query whose plan follows the index of its order.
    ///
    /// Plans are made once for a connection, and a plan that suits an organization's first mutations would read all of
    /// them later.
    func runInOrder(_ query: Query) async throws -> Rows {
        try await readByIndex([Query(Self.orderShape), query])[1]
    }
}
