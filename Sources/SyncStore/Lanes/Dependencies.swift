/// What a mutation waits for, as it is shown.
enum Dependencies {
    /// Of a mutation that is called `m`: what is not done of `depends_on`, as far as that is known. In a long list what
    /// stands before `blocked_on` is done, and still there.
    static let open = """
        CASE WHEN cardinality(m.depends_on) > \(LaneStatements.shortList)
                THEN m.depends_on[coalesce(array_position(m.depends_on, m.blocked_on), 1):]
                ELSE m.depends_on END
        """
}
