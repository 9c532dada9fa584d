public import JSONText

/// The settings of the REST API to which an organization's mutations are replayed.
///
/// An operator configures these settings.
public struct UpstreamSettings: Sendable, Hashable {
    /// The base URL. The paths of all requests are below this URL.
    ///
    /// The URL has the scheme `http` or `https` and a host, and optionally a port and a path. It has no user, query or
    /// fragment, and no slash at the end.
    public var baseURL: String {
        didSet { base = Self.parsed(baseURL) }
    }
    /// The parsed ``baseURL``, or the reason why no request can be sent to this URL.
    public private(set) var base: Result<BaseURL, BaseURL.Malformed>
    /// The credential of requests; nil if requests have no credential.
    public var credential: UpstreamCredential?
    /// The time limit of a request, from 1 to 90 seconds, and less than the lease.
    ///
    /// The time is measured from the first sent byte to the last received byte.
    public var timeoutSeconds: Int
    /// The maximum number of the organization's lanes that a gateway runs at the same time, from 1 to 1,000.
    ///
    /// This is also the maximum number of requests in flight.
    public var maximumConcurrency: Int
    /// The JSON Pointer to the entity's id in an answer. The object that contains the id is the entity's document.
    @Exact public var idPointer: String
    /// The headers of every request, by name in lower case.
    ///
    /// These headers take precedence over a mutation's own headers.
    @Exact public var headers: [ByteExactString: String]

    /// The headers that mutations may have in addition to ``alwaysAllowedHeaders``.
    ///
    /// The names are in lower case and sorted.
    @Exact public var allowedHeaders: [String]
    /// The path to which the gateway sends a `DELETE` when a user is erased; nil if the upstream is not notified.
    ///
    /// The path is below the base URL, and contains ``EraseEndpoint/placeholder``.
    @Exact public var eraseEndpoint: String?
    /// Whether the upstream accepts weak ETags in If-Match.
    ///
    /// By default this is false, because a server must refuse every request with a weak ETag in If-Match (RFC 9110,
    /// 13.1.1).
    public var sendsWeakETags = false
    /// The operator's rules for the meaning of answers.
    public var outcomes = OutcomeRules()
    /// The maximum number of requests per second from all gateways together, from 1 to 1,000,000; nil without a limit.
    public var requestsPerSecond: Int64?
    /// The upstream's settings for batches; nil if the gateway sends no batches.
    public var batch: UpstreamBatch?
    /// The operator's pause, during which the gateway sends nothing; nil without a pause.
    public var pause: UpstreamPause?
    /// When an operator last changed the settings.
    public var changedAt = Timestamp(microseconds: 0)
    /// The route that determines the request; nil for a request without a route.
    public var route: EntityRoute?

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

/// An operator's pause of an upstream (product rule 22).
public struct UpstreamPause: Sendable, Hashable {
    /// The interval at which a waiting lane checks whether the pause has ended, in seconds.
    static let interval: Double = 30

    /// When the pause ends automatically; nil if an operator must end the pause.
    public var until: Timestamp?

    public init(until: Timestamp? = nil) {
        self.until = until
    }

    public func isOver(at now: Timestamp) -> Bool { until.map { $0 <= now } ?? false }

    /// When a lane that waits because of the pause next checks whether the pause has ended.
    func nextCheck(from now: Timestamp) -> Timestamp {
        let next = now.adding(seconds: Self.interval)
        return until.map { min($0, next) } ?? next
    }
}

extension UpstreamSettings {
    /// A copy of the settings, without a pause that has ended.
    public func withoutEndedPause(at now: Timestamp) -> UpstreamSettings {
        var settings = self
        if pause?.isOver(at: now) == true { settings.pause = nil }
        return settings
    }
}

extension UpstreamSettings {
    /// The quota of requests; nil without a limit.
    public var requestQuota: Quota? { requestsPerSecond.map { Quota(.requests, limit: $0) } }
}

/// Members that interpret answers.
extension UpstreamSettings {
    /// The JSON Pointer to the entity's id in an answer to the request.
    var answerIDPointer: String { route?.idPointer ?? idPointer }

    /// The rule that decides about an answer; nil if no rule matches.
    public func outcomeRule(status: Int, body: JSONValue?) -> OutcomeRule? {
        route?.outcomes.first { $0.matches(status: status, body: body) }
            ?? outcomes.first(status: status, body: body)
    }

    /// Whether a rule for this status has conditions on the answer's body.
    func readsBody(of status: Int) -> Bool {
        ((route?.outcomes ?? []) + outcomes.rules).contains { $0.statuses.contains(status) && !$0.conditions.isEmpty }
    }
}

/// The rules that decide which headers of mutations are sent.
extension UpstreamSettings {
    /// The headers that mutations may have in every organization, in lower case.
    ///
    /// These headers are preferences for the answer, the language of the content, and preconditions.
    static let alwaysAllowedHeaders: Set<ByteExactString> = [
        "accept", "accept-language", "content-language", "if-match", "if-none-match", "if-unmodified-since", "prefer",
    ]

    public static let maximumAllowedHeaders = 32

    /// Whether a mutation's header is sent.
    ///
    /// A header is sent only if it is now on the operator's list, or is allowed in every organization. It does not
    /// matter whether the header was allowed when the mutation was accepted.
    func allows(_ name: String) -> Bool {
        let lowercased = name.lowercased()
        return Self.alwaysAllowedHeaders.contains(lowercased)
            || (allowedHeaders.contains(lowercased) && !HeaderField.isReserved(lowercased))
    }

    /// The error in the name of a header that an operator allows for mutations; nil if the name is valid.
    ///
    /// The text continues a sentence that begins with "header".
    public static func allowedHeaderProblem(_ name: String) -> String? {
        guard HeaderField.isName(name) else { return "is not a valid header name (RFC 9110 token)" }
        guard name.utf8.count <= 100 else { return "has a name of more than 100 bytes" }
        if HeaderField.isReserved(name) { return "cannot be set by mutations" }
        let folded = HeaderField.folded(name)
        if folded != name.lowercased(), alwaysAllowedHeaders.contains(folded) {
            return "is another spelling of \(folded), which is already allowed"
        }
        return nil
    }
}

extension UpstreamCredential {
    /// Reads the stored form; nil if the form is null or invalid.
    public init?(stored value: JSONValue) {
        if value.stringEquals("signed") {
            self = .signed
        } else if let token = value.value(at: "/bearer")?.string {
            self = .bearer(token)
        } else if let name = value.value(at: "/header")?.string, let text = value.value(at: "/value")?.string {
            self = .header(name: name, value: text)
        } else {
            return nil
        }
    }

    /// The stored form, including secrets.
    public var stored: [UInt8] {
        var writer = JSONWriter()
        switch self {
        case .signed:
            writer.string("signed")
        case .bearer(let token):
            writer.beginObject()
            writer.member("bearer", token)
            writer.endObject()
        case .header(let name, let value):
            writer.beginObject()
            writer.member("header", name)
            writer.member("value", value)
            writer.endObject()
        }
        return writer.bytes
    }
}

extension UpstreamSettings {
    public static func headers(stored value: JSONValue) -> [ByteExactString: String] {
        guard let members = value.members else { return [:] }
        var headers: [ByteExactString: String] = [:]
        for (name, value) in members { headers[name.string] = value.string }
        return headers
    }

    /// The stored form of ``headers``, ordered by name.
    public var storedHeaders: [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
            writer.name(name)
            writer.string(value)
        }
        writer.endObject()
        return writer.bytes
    }
}

extension UpstreamSettings {
    /// The error in a header that an operator adds to every request; nil if the header is valid.
    ///
    /// The text continues a sentence that begins with "header".
    ///
    /// - Parameter isCredential: whether the header is the credential, which may be `Authorization` or `Cookie`.
    public static func headerProblem(name: String, value: String, isCredential: Bool) -> String? {
        guard HeaderField.isName(name) else { return "is not a valid header name (RFC 9110 token)" }
        if HeaderField.isOurs(name) { return "is set by the gateway; omit it" }
        if !isCredential, HeaderField.credentials.contains(HeaderField.folded(name)) {
            return "authenticates the gateway; use credential"
        }
        if isCredential, value.isEmpty { return "has no value" }
        guard HeaderField.isValue(value) else {
            return "must have at most \(HeaderField.maximumValueBytes) bytes and no control characters"
        }
        return nil
    }
}

/// The credential with which the gateway authenticates itself to an organization's upstream.
public enum UpstreamCredential: Sendable, Hashable {
    /// The header `Authorization: Bearer …`, which is the same for all users.
    case bearer(String)
    /// A header of the operator's choice, which is the same for all users.
    case header(name: String, value: String)
    /// The header `Authorization: Bearer` with a short-lived JWT for the mutation's user. Sluice signs the JWT.
    case signed

    /// Compares texts by their bytes.
    public static func == (left: UpstreamCredential, right: UpstreamCredential) -> Bool {
        switch (left, right) {
        case (.bearer(let left), .bearer(let right)): left == right
        case (.header(let leftName, let leftValue), .header(let rightName, let rightValue)):
            leftName == rightName && leftValue == rightValue
        case (.signed, .signed): true
        default: false
        }
    }

    public func hash(into hasher: inout Hasher) {
        switch self {
        case .bearer(let token): token.hashBytes(into: &hasher)
        case .header(let name, let value):
            name.hashBytes(into: &hasher)
            value.hashBytes(into: &hasher)
        case .signed: hasher.combine(2)
        }
    }
}
