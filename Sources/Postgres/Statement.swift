/// A statement's text, prepared on a connection at its first use there.
public struct Statement: Sendable, Hashable {
    /// The name it is prepared under, unique in the process.
    ///
    /// A name used with another text is refused. Without a name it is prepared each time.
    public let name: String
    /// One SQL statement with `$1`, `$2`, … for its parameters.
    public let sql: String
    /// The text from which a ``Dialect`` starts, where its rules cannot use ``sql``.
    ///
    /// It has the same parameters and the same result.
    public let variant: String?

    /// A statement under a name that no other statement in the process has.
    public init(_ name: String, _ sql: String, variant: String? = nil) {
        self.name = name
        self.sql = sql
        self.variant = variant
    }
}
