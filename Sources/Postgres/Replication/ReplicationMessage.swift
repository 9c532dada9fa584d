/// A message of the output plug-in `pgoutput` about one place in the log.
///
/// "Logical Replication Message Formats" of PostgreSQL's manual, version 1 of its protocol. Transactions come whole, in
/// the order of their commits.
public enum ReplicationMessage: Sendable, Hashable {
    /// A transaction whose changes follow.
    ///
    /// `commit` is the position of its commit; `at` is when it was committed by the clock there, in microseconds since
    /// 1970.
    case begin(commit: LogPosition, at: Int64)
    /// The transaction has ended; `end` is where the log continues behind it.
    case commit(end: LogPosition)
    /// The structure of a table whose changes follow.
    ///
    /// Sent before the first of them, and again when it has changed.
    case relation(ReplicationRelation)
    /// A row was inserted.
    case insertion(table: UInt32, new: ReplicationTuple)
    /// A row was updated; `new` is its state from now on.
    ///
    /// `old` has the columns that identified it before, where they have changed (or all of the old row, with REPLICA
    /// IDENTITY FULL).
    case row(table: UInt32, old: ReplicationTuple?, new: ReplicationTuple)
    /// A row was deleted; `old` has the columns that identified it.
    ///
    /// The other columns are null unless the table has REPLICA IDENTITY FULL.
    case deletion(table: UInt32, old: ReplicationTuple)
    /// Tables were emptied.
    case truncation(tables: [UInt32])
    /// A message that changes no rows.
    ///
    /// An origin, a type's name, a message of `pg_logical_emit_message`.
    case other
}

/// A table as the log describes it.
public struct ReplicationRelation: Sendable, Hashable {
    public struct Column: Sendable, Hashable {
        public let name: String
        /// The type's number; those of built-in types are the same on all servers.
        public let type: UInt32
        /// Whether the column is one of those that identify a row.
        public let isKey: Bool
    }

    public let id: UInt32
    public let schema: String
    public let name: String
    public let columns: [Column]
}

/// A row's values in the order of its table's columns.
public typealias ReplicationTuple = [ReplicationValue]

/// A value as its type's output function writes it.
public enum ReplicationValue: Sendable, Hashable {
    case null
    /// A large value that was not changed, and so is not sent.
    case unchanged
    case text([UInt8])
}
