/// Where a server is reached, as in libpq's `host` and `port`.
public struct ServerAddress: Sendable, Hashable, CustomStringConvertible {
    public let host: String
    public let port: Int32
    /// The server's result for `Dialect.identity`.
    ///
    /// Under its name there may be another server from here, above all under `localhost`.
    public let identity: String

    public init(host: String, port: Int32, identity: String) {
        self.host = host
        self.port = port
        self.identity = identity
    }

    /// `host:port`.
    public var description: String { "\(host):\(port)" }
}
