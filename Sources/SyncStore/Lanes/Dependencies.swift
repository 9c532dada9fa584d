/// The dependencies of a mutation, as they are shown.
package enum Dependencies {
    /// Of a mutation `m`: its `depends_on` without those known to be done.
    ///
    /// In a long list, entries before `blocked_on` are done and still there.
    package static let open = """
        CASE WHEN cardinality(m.depends_on) > \(LaneStatements.shortList)
                THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
                ELSE m.depends_on END
        """

    /// The first of them.
    package static func first(_ count: Int) -> String { "(\(open))[1:\(count)]" }
}
