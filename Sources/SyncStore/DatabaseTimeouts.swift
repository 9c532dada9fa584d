/// How long the gateway waits for Postgres. All limits are in proportion to one number: the right value differs
/// between machines, and a limit below another one would make that one meaningless.
package struct DatabaseTimeouts: Sendable {
    /// How long one statement may take. With the margin and the grace of a cancellation a push is then answered within
    /// twice this time, the five seconds of the contract by default.
    package var statement: Duration

    /// How long a statement waits for a lock: 2 s by default.
    ///
    /// It is less than its total time, and also limits connecting.
    package var lock: Duration

    /// - Parameter statement: how long one statement may take.
    package init(statement: Duration = .milliseconds(2_500)) {
        self.statement = statement
        lock = statement * 4 / 5
    }

    /// How long a push may wait before it is answered `store_unavailable`.
    ///
    /// Queued or for the database: 4.5 s by default.
    package var push: Duration { statement * 9 / 5 }
    /// How long a caller waits for a connection of the pool: 3 s by default.
    package var connection: Duration { statement * 6 / 5 }
    /// How long a transaction may stay idle: 5 s by default.
    package var idleTransaction: Duration { statement * 2 }
    /// How long all statements of one write of a settlement may take: 10 s by default.
    package var settlement: Duration { statement * 4 }
    /// How long a lane's step may wait until its worker gets an error: 10 s by default.
    package var laneStep: Duration { statement * 4 }
}
