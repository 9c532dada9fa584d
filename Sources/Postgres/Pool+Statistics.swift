extension Pool {
    public struct Statistics: Sendable, Equatable {
        /// Connections that exist, lent or idle.
        public let open: Int
        /// Connections not in use.
        public let idle: Int
        public let connecting: Int
        public let waiting: Int
        /// Connections made since the pool was.
        public let created: Int
        /// Connections there may be.
        public let maximum: Int
        /// Callers refused since the pool was made: all connections stayed in use, or too many waited already.
        public let exhausted: Int
        /// How long callers have waited in line, all together.
        public let waited: Duration
    }
}
