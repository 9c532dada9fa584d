/// Problems of the database.
extension Problem {
    /// The database cannot be reached: worth a retry in two seconds.
    public static var storeUnavailable: Problem {
        var problem = Problem(.storeUnavailable, "the database cannot be reached; no data was lost, try again")
        problem.retryAfter = 2
        return problem
    }

    /// The gateway or the database is overloaded, while the database can be reached.
    ///
    /// - Parameter detail: the overloaded part; "; try again" is appended.
    public static func overloaded(_ detail: String) -> Problem {
        var problem = Problem(.overloaded, detail + "; try again")
        problem.retryAfter = 1
        return problem
    }
}
