/// Where a server is reached, as libpq's `host` and `port` say it.
public struct ServerAddress: Sendable, Hashable, CustomStringConvertible {
    public let host: String
    public let port: Int32
    /// What it says to `Dialect.identity`: under that name there may be another server from here, above all under
    /// `localhost`.
    public let identity: String

    public init(host: String, port: Int32, identity: String) {
        self.host = host
        self.port = port
        self.identity = identity
    }

    /// `host:port`.
    public var description: String { "\(host):\(port)" }
}
