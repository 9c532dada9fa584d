extension Pool {
    public struct Statistics: Sendable, Equatable {
        /// Connections that exist, lent or idle.
        public let open: Int
        /// Connections not in use.
        public let idle: Int
        public let connecting: Int
        public let waiting: Int
        /// Connections made since the pool's creation.
        public let created: Int
        /// The largest number of connections.
        public let maximum: Int
        /// Callers refused since the pool's creation.
        ///
        /// All connections stayed in use, or too many callers waited already.
        public let exhausted: Int
        /// The total time that callers have waited in line.
        public let waited: Duration
    }
}
