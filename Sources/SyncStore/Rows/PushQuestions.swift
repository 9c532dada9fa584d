package import Postgres

// The questions of a group of pushes. Each row carries its push's place in the group, and so does each answer.

extension RowReader {
    /// Reads a push's place in the group.
    package mutating func push() throws(PostgresError) -> Int { Int(try int32("push")) }
}
