/// Where a server is reached, as libpq's `host` and `port` say it.
public struct ServerAddress: Sendable, Hashable {
    public let host: String
    public let port: Int32

    public init(host: String, port: Int32) {
        self.host = host
        self.port = port
    }
}
