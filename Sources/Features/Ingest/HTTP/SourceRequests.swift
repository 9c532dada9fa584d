import HTTPTypes
import JSONText
import StandardWebhooks
import SyncHTTP
package import SyncModel

/// The body of `PUT /admin/organizations/{id}/sources/{name}`, before the gateway has checked that its members fit each
/// other.
struct SourceRequest {
    private var kind: SourceKind?
    private var settings: JSONValue?
    private var isEnabled = true
    private var secret: String?
    private var parsed: SourceSettings?

    /// The maximum length of a secret, in bytes. The longest secrets are connection URIs with many parameters.
    private static let maximumSecretBytes = 4_096

    static let table = MemberTable<Self, SourceRow>("a source: kind, settings, secret, status") {
        BodyMember("name", shown: \.name)
        BodyMember("kind", .oneOf, into: \.kind).required().shown(\.kind.rawValue)
        BodyMember("status", .status, into: \.isEnabled).shown { $0.isEnabled ? "enabled" : "disabled" }
        BodyMember("settings", .json, into: \.settings).required().shown { RawJSON($0.settings) }
        BodyMember("secret", .sourceSecret(maximumSecretBytes), into: \.secret).nullable
        BodyMember("previous_secret_until", shown: \.previousSecretUntil?.rfc3339)
        BodyMember("activity", shown: \.activity.rawValue)
        BodyMember("state", shown: { $0.state.map { RawJSON($0) } })
        BodyMember("next_run_at", shown: \.nextRunAt?.rfc3339)
        BodyMember("last_success_at", shown: \.lastSuccessAt?.rfc3339)
        BodyMember("last_event_at", shown: \.lastEventAt?.rfc3339)
        BodyMember("failure_count", shown: { Int64($0.failureCount) })
        BodyMember("failing_since", shown: \.failingSince?.rfc3339)
        BodyMember("last_error", shown: \.lastError)
        BodyMember("created_at", shown: \.createdAt.rfc3339)
        BodyMember("updated_at", shown: \.updatedAt.rfc3339)
    } check: { request, _, report in
        guard let kind = request.kind, let settings = request.settings else { return }
        request.parsed = SourceSettings(kind, settings, at: "/settings", &report)
        if case .postgres(let settings)? = request.parsed { settings.refuseMergingTables(at: "/settings", &report) }
        if let json = request.parsed?.json, json.count > SourceSettings.maximumBytes {
            report.refuse("/settings", Rule.range, "settings may have at most \(SourceSettings.maximumBytes) bytes")
        }
        if kind == .webhook, let text = request.secret { request.secret = report.receiverSecret(text, at: "/secret") }
    }

    fileprivate static func update(_ body: [UInt8]) throws(Problem) -> SourceUpdate {
        let request = try table.read(body, into: Self())
        guard let settings = request.parsed else { throw Problem(.validationFailed, "the settings are incomplete") }
        return SourceUpdate(settings: settings, isEnabled: request.isEnabled, secret: request.secret)
    }
}

extension SourceUpdate {
    /// Reads the body of `PUT /admin/organizations/{id}/sources/{name}`.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers. No error message repeats a
    ///   secret.
    package init(body: [UInt8]) throws(Problem) { self = try SourceRequest.update(body) }

    /// Checks the address in the source's secret by the rules for URLs of webhooks.
    ///
    /// Only the secret of a source of kind `postgres` contains an address, because it is a connection URI.
    ///
    /// - Throws: `validation_failed` at `/secret`.
    package func check(_ policy: AddressPolicy) throws(Problem) {
        guard let detail = SourceSettings.problem(ofSecret: secret, for: settings.kind, under: policy) else { return }
        throw Problem(.validationFailed, pointer: "/secret", rule: Rule.range, detail)
    }
}

/// The body of `POST …/sources/{name}/secret`.
struct SourceSecretRequest {
    private(set) var secret: String?
    private(set) var overlap = WebhookSecretRequest.defaultOverlap

    private static let table = MemberTable<Self, Never>("a new secret") {
        BodyMember("secret", .receiverSecret, into: \.secret)
        BodyMember("overlap_seconds", .overlap, into: \.overlap)
    }

    init(body: [UInt8]) throws(Problem) { self = try Self.table.read(body, into: Self(), isOptional: true) }

    private init() {}
}

/// The body of `POST …/sources/{name}/run`.
struct SourceRunRequest {
    private(set) var beginning = SourceAdministration.Beginning.continuing

    init(body: [UInt8], of source: SourceRow) throws(Problem) {
        let from = MemberKind { SourceAdministration.Beginning(from: $0, of: source, &$2) }
        let table = MemberTable<Self, Never>("a run") { BodyMember("from", from, into: \.beginning) }
        self = try table.read(body, into: Self(), isOptional: true)
    }

    private init() {}
}

extension SourceAdministration.Beginning {
    /// Reads where a run begins. The value is null for the beginning of the data, or a place in the form that the kind
    /// of source defines.
    fileprivate init?(from value: JSONValue, of source: SourceRow, _ report: inout MemberReport) {
        guard !value.isNull else {
            self = .anew
            return
        }
        guard let settings = SourceSettings(source.kind, stored: source.settings) else {
            report.refuse("/from", Rule.range, "from must be null: this gateway cannot read the source's settings")
            return nil
        }
        guard let state = settings.state(from: value, at: "/from", &report) else { return nil }
        self = .at(state)
    }

    /// Reads where a run begins, from JSON text.
    ///
    /// - Throws: `invalid_json`; `validation_failed` if the value is not a valid place.
    package init(from json: [UInt8], of source: SourceRow) throws(Problem) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: json)
        } catch {
            throw Problem(jsonError: error, limit: JSONLimits().maximumBytes)
        }
        var report = MemberReport()
        let beginning = Self(from: tree.root, of: source, &report)
        try report.check()
        guard let beginning else { throw Problem(.validationFailed, "the place does not exist") }
        self = beginning
    }
}

/// The body of `POST …/sources/{name}/test`. It contains a message or a response from which to make events.
struct SourceTestRequest {
    /// The message or the response, as JSON.
    private(set) var body: [UInt8] = []
    private(set) var messageID = "test"
    /// The mapping to try instead of the source's mapping; nil to use the source's mapping.
    private(set) var mapping: SourceMapping?

    private static let table = MemberTable<Self, Never>("a test") {
        BodyMember("body", MemberKind { value, _, _ in Array(value.raw) }, into: \.body)
            .required("body is required: the message as JSON")
        BodyMember("headers", .messageID, into: \.messageID)
        BodyMember("mapping", .object, into: \.mapping).nullable
    }

    init(body: [UInt8]) throws(Problem) { self = try Self.table.read(body, into: Self()) }

    private init() {}
}

extension MemberKind<JSONValue> {
    fileprivate static var json: Self { Self { value, _, _ in value } }
}

extension MemberKind<String> {
    fileprivate static func sourceSecret(_ maximumBytes: Int) -> Self {
        text("must be a string of 1 to \(maximumBytes) bytes") { (1...maximumBytes).contains($0.utf8.count) }
    }

    /// A key that verifies messages: a secret or a public key, in the form of Standard Webhooks.
    fileprivate static var receiverSecret: Self {
        Self { value, place, report in report.receiverSecret(value.string ?? "", at: place.pointer) }
    }

    /// The id in the headers of a message; nil if the headers contain no id.
    fileprivate static var messageID: Self {
        Self { value, place, report in
            guard let members = value.members else {
                report.refuse(place.pointer, Rule.memberType, "headers must be an object of names and strings")
                return nil
            }
            var found: String?
            for (name, value) in members where name.string.lowercased() == WebhookHeader.id {
                let sizes = 1...WebhookVerifier.maximumIDBytes
                let id = value.string.flatMap { sizes.contains($0.utf8.count) ? $0 : nil }
                let detail = "webhook-id must be a string of 1 to 256 bytes"
                found = report.value(id, at: place.pointer + "/webhook-id", detail)
            }
            return found
        }
    }
}

extension MemberReport {
    fileprivate mutating func receiverSecret(_ text: String, at pointer: String) -> String? {
        let sizes = WebhookSecret.sizes
        let detail = """
            secret must be whsec_ and the base64 of \(sizes.lowerBound) to \(sizes.upperBound) bytes, or a public key: whpk_ \
            and the base64 of 32 bytes
            """
        var secret: String?
        if text.hasPrefix(WebhookSecret.prefix) { secret = WebhookSecret(text)?.text }
        if text.hasPrefix(WebhookPublicKey.prefix), WebhookPublicKey(text) != nil { secret = text }
        return value(secret, at: pointer, detail)
    }
}
