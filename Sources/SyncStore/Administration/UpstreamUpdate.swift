import JSONText
import SyncModel

/// What of a gateway's configuration bears on the upstreams that it takes.
package struct UpstreamRules: Sendable {
    /// Whether there is a key to sign `signed` credentials with.
    package var canSign: Bool
    /// How long a worker has a lane, in seconds: a request that takes longer would be sent twice.
    package var leaseSeconds: Int

    /// Creates the value.
    package init(canSign: Bool, leaseSeconds: Int) {
        self.canSign = canSign
        self.leaseSeconds = leaseSeconds
    }

    /// The longest timeout of a request, in seconds.
    var maximumTimeout: Int { max(1, min(90, leaseSeconds - 1)) }
}

/// What a member of a request says of a value.
enum Change<Value: Sendable>: Sendable {
    /// Absent.
    case keep
    /// Null.
    case reset
    case set(Value)

    /// Changes a value.
    func apply(to value: inout Value, default initial: Value) {
        switch self {
        case .keep: break
        case .reset: value = initial
        case .set(let new): value = new
        }
    }
}

/// The body of `PUT /admin/organizations/{id}/upstream`. No detail of a problem repeats a credential.
struct UpstreamUpdate: Sendable {
    private var baseURL: String?
    private var credential: Change<UpstreamCredential?> = .keep
    private var timeoutSeconds: Change<Int> = .keep
    private var maximumConcurrency: Change<Int> = .keep
    private var idPointer: Change<String> = .keep
    private var headers: Change<[String: String]> = .keep
    private var allowedHeaders: Change<[String]> = .keep

    init(_ body: [UInt8], rules: UpstreamRules) throws(Problem) {
        var report = UpstreamReport()
        for (member, value) in try requestMembers(body) {
            switch member {
            case "base_url": baseURL = report.baseURL(value)
            case "credential": credential = report.credential(value, rules)
            case "timeout_seconds": timeoutSeconds = report.int(value, 1...rules.maximumTimeout, "timeout_seconds")
            case "max_concurrency": maximumConcurrency = report.int(value, 1...1_000, "max_concurrency")
            case "id_pointer": idPointer = report.idPointer(value)
            case "headers": headers = report.headers(value)
            case "allowed_headers": allowedHeaders = report.allowedHeaders(value)
            default:
                let known =
                    "base_url, credential, timeout_seconds, max_concurrency, id_pointer, headers, allowed_headers"
                report.problems.append(.unknown(member, of: "an upstream: " + known))
            }
        }
        try report.throwProblems()
    }

    /// The settings after the request; `current` are those before, nil where there are none.
    func applied(to current: UpstreamSettings?) throws(Problem) -> UpstreamSettings {
        guard let baseURL = baseURL ?? current?.baseURL else {
            let detail = "base_url is required: the organization has no upstream yet"
            throw Problem(.validationFailed, pointer: "/base_url", rule: Rule.required, detail)
        }
        let initial = UpstreamSettings(baseURL: baseURL)
        var settings = current ?? initial
        settings.baseURL = baseURL
        credential.apply(to: &settings.credential, default: initial.credential)
        timeoutSeconds.apply(to: &settings.timeoutSeconds, default: initial.timeoutSeconds)
        maximumConcurrency.apply(to: &settings.maximumConcurrency, default: initial.maximumConcurrency)
        idPointer.apply(to: &settings.idPointer, default: initial.idPointer)
        headers.apply(to: &settings.headers, default: initial.headers)
        allowedHeaders.apply(to: &settings.allowedHeaders, default: initial.allowedHeaders)
        if case .header(let name, _) = settings.credential { try Self.checkUnique(name, in: settings) }
        return settings
    }

    /// What carries the credential is neither the operator's to set elsewhere nor a mutation's, in whatever spelling.
    private static func checkUnique(_ credential: String, in settings: UpstreamSettings) throws(Problem) {
        let folded = UpstreamRequest.foldedHeader(credential)
        let isIt = { (name: String) in UpstreamRequest.foldedHeader(name) == folded }
        let detail = "\(credential) carries the credential; name it in one place only"
        if let name = settings.headers.keys.first(where: isIt) {
            let pointer = JSONPointer("/headers").appending(member: name).text
            throw Problem(.validationFailed, pointer: pointer, rule: Rule.header, detail)
        }
        if settings.allowedHeaders.contains(where: isIt) {
            throw Problem(.validationFailed, pointer: "/allowed_headers", rule: Rule.header, detail)
        }
    }
}
