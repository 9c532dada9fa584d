extension Pool {
    package struct Statistics: Sendable, Equatable {
        /// Connections that exist, lent or idle.
        package let open: Int
        /// Connections that nobody uses.
        package let idle: Int
        package let connecting: Int
        package let waiting: Int
        /// Connections made since the pool was.
        package let created: Int
        /// Connections there may be.
        package let maximum: Int
        /// Callers refused since the pool was made: all connections stayed in use, or too many waited already.
        package let exhausted: Int
        /// How long callers have waited in line, all together.
        package let waited: Duration
    }
}
