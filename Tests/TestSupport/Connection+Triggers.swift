package import Postgres

extension Connection {
    /// Replaces a trigger function by one that accepts every row.
    ///
    /// Tests use this method instead of DROP TRIGGER, which locks the table and its partitions one after another. That
    /// can cause a deadlock with a worker's statement.
    package func acceptRows(in function: String) async throws {
        try await execute(
            script: """
                CREATE OR REPLACE FUNCTION \(function)() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN RETURN coalesce(NEW, OLD); END'
                """
        )
    }
}
