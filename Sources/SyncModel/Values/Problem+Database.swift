/// What callers are told while the database does not do what it should.
extension Problem {
    /// The database is away: worth another try in two seconds.
    public static var storeUnavailable: Problem {
        var problem = Problem(.storeUnavailable, "the database cannot be reached; nothing was lost, try again")
        problem.retryAfter = 2
        return problem
    }

    /// Something is too much just now, while the database is there.
    ///
    /// - Parameter detail: what; "; try again" follows.
    public static func overloaded(_ detail: String) -> Problem {
        var problem = Problem(.overloaded, detail + "; try again")
        problem.retryAfter = 1
        return problem
    }
}
