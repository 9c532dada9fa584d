public import JSONText

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
    /// The operator's rules about the meaning of answers.
    public var outcomes = OutcomeRules()
    /// The most requests per second, from all gateways together, 1 to 1,000,000; nil for any number.
    public var requestsPerSecond: Int64?
    /// Set if the upstream takes batches.
    public var batch: UpstreamBatch?
    /// Set while the operator lets nothing be sent.
    public var pause: UpstreamPause?
    /// When an operator last changed the settings.
    public var changedAt = Timestamp(microseconds: 0)
    /// The route of the request, if an entity type's route made it.
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
    /// How long a lane waits before it checks again whether the pause has ended, in seconds.
    static let interval: Double = 30

    /// When the pause ends by itself; nil if an operator ends it.
    public var until: Timestamp?

    public init(until: Timestamp? = nil) {
        self.until = until
    }

    public func isOver(at now: Timestamp) -> Bool { until.map { $0 <= now } ?? false }

    /// When a lane that the pause keeps waiting checks again.
    func nextCheck(from now: Timestamp) -> Timestamp {
        let next = now.adding(seconds: Self.interval)
        return until.map { min($0, next) } ?? next
    }
}

extension UpstreamSettings {
    /// The settings without a pause whose end has come.
    public func withoutEndedPause(at now: Timestamp) -> UpstreamSettings {
        var settings = self
        if pause?.isOver(at: now) == true { settings.pause = nil }
        return settings
    }
}

extension UpstreamSettings {
    /// Nil for any number.
    public var requestQuota: Quota? { requestsPerSecond.map { Quota(.requests, limit: $0) } }
}

/// How answers are read.
extension UpstreamSettings {
    /// JSON Pointer to the entity's id in an answer to the request.
    var answerIDPointer: String { route?.idPointer ?? idPointer }

    /// The rule that decides about an answer; nil if none matches.
    public func outcomeRule(status: Int, body: JSONValue?) -> OutcomeRule? {
        route?.outcomes.first { $0.matches(status: status, body: body) }
            ?? outcomes.first(status: status, body: body)
    }

    /// Whether a rule about that status has conditions on the body.
    func readsBody(of status: Int) -> Bool {
        ((route?.outcomes ?? []) + outcomes.rules).contains { $0.statuses.contains(status) && !$0.conditions.isEmpty }
    }
}

/// The mutations' headers that are sent.
extension UpstreamSettings {
    /// Headers that mutations of every organization may carry, in lower case.
    ///
    /// Preferences for the answer, the content's language, and preconditions of the request.
    static let alwaysAllowedHeaders: Set<ByteExactString> = [
        "accept", "accept-language", "content-language", "if-match", "if-none-match", "if-unmodified-since", "prefer",
    ]

    public static let maximumAllowedHeaders = 32

    /// Whether a mutation's header is sent.
    ///
    /// One that is not on the list is not sent, even if the mutation was accepted while it was, or while there was no
    /// list.
    func allows(_ name: String) -> Bool {
        let lowercased = name.lowercased()
        return Self.alwaysAllowedHeaders.contains(lowercased)
            || (allowedHeaders.contains(lowercased) && !HeaderField.isReserved(lowercased))
    }

    /// The error in a header that an operator wants mutations to carry; nil if valid.
    ///
    /// It completes "header …".
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
    /// Reads the stored form; nil for JSON's null and for an invalid one.
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

    /// The stored form, secrets included.
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

    /// The stored form of ``headers``, by name.
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
    /// The error in a header that an operator wants on every request; nil if valid.
    ///
    /// It completes "header …".
    ///
    /// - Parameter isCredential: whether it is the credential, which may be `Authorization` or `Cookie`.
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

/// How the gateway authenticates itself to an organization's upstream.
public enum UpstreamCredential: Sendable, Hashable {
    /// `Authorization: Bearer …`, the same for all users.
    case bearer(String)
    /// A header of the operator's choice, the same for all users.
    case header(name: String, value: String)
    /// `Authorization: Bearer` with a short-lived JWT for the mutation's user.
    ///
    /// Sluice signs it.
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
