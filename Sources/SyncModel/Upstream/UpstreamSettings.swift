/// The REST API to which an organization's mutations are replayed.
///
/// An operator configures it.
public struct UpstreamSettings: Sendable, Hashable {
    /// The URL below which every request's path is.
    ///
    /// `http` or `https`, a host, perhaps a port and a path; no user, query or fragment, and no slash at the end.
    public var baseURL: String {
        didSet { base = Self.parsed(baseURL) }
    }
    /// ``baseURL`` parsed, once for all requests; or why no request can be sent there.
    public private(set) var base: Result<BaseURL, BaseURL.Malformed>
    /// Nil: requests carry none.
    public var credential: UpstreamCredential?
    /// How long a request may take, in seconds; 1 to 90, and less than the lease.
    ///
    /// The time counts from the first byte sent to the last received.
    public var timeoutSeconds: Int
    /// Lanes that a gateway runs at the same time, 1 to 1,000.
    ///
    /// So it limits the requests in flight.
    public var maximumConcurrency: Int
    /// JSON Pointer (RFC 6901) to the entity's id in an answer. The object that holds the id is the entity's document.
    @Exact public var idPointer: String
    /// Headers of every request, by name in lower case.
    ///
    /// They take precedence over a mutation's own.
    @Exact public var headers: [ByteExactString: String]

    /// Headers that mutations may carry besides those of every organization.
    ///
    /// They are in lower case and sorted.
    @Exact public var allowedHeaders: [String]
    /// The path to which the erasure of a user is sent, by `DELETE`.
    ///
    /// A path below the base URL with ``EraseEndpoint/placeholder`` in it. Nil: the upstream is not notified.
    @Exact public var eraseEndpoint: String?
    /// Whether the upstream accepts weak ETags in If-Match. RFC 9110, 13.1.1 has it refuse every request with one.
    public var sendsWeakETags = false

    public init(
        baseURL: String,
        credential: UpstreamCredential? = nil,
        timeoutSeconds: Int = 30,
        maximumConcurrency: Int = 16,
        idPointer: String = "/id",
        headers: [ByteExactString: String] = [:],
        allowedHeaders: [String] = [],
        eraseEndpoint: String? = nil
    ) {
        self.baseURL = baseURL
        base = Self.parsed(baseURL)
        self.credential = credential
        self.timeoutSeconds = timeoutSeconds
        self.maximumConcurrency = maximumConcurrency
        self.idPointer = idPointer
        self.headers = headers
        self.allowedHeaders = allowedHeaders
        self.eraseEndpoint = eraseEndpoint
    }

    private static func parsed(_ baseURL: String) -> Result<BaseURL, BaseURL.Malformed> {
        do throws(BaseURL.Malformed) { return .success(try BaseURL(baseURL)) } catch { return .failure(error) }
    }
}
