import HTTPTypes
import JSONText
import StandardWebhooks
import SyncHTTP
package import SyncModel

extension SourceUpdate {
    /// Reads the body of `PUT /admin/organizations/{id}/sources/{name}`.
    ///
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers. No detail repeats a secret.
    package init(body: [UInt8]) throws(Problem) {
        var (kind, settings, isEnabled, secret): (SourceKind?, JSONValue?, Bool, String?) = (nil, nil, true, nil)
        var update: SourceSettings?
        let what = "a source: kind, settings, secret, status"
        try RequestReport.read(body, of: what) { report, member, value in
            switch member {
            case "kind":
                let known = SourceKind.allCases.map(\.rawValue).joined(separator: ", ")
                kind = report.value(
                    value.string.flatMap(SourceKind.init(rawValue:)),
                    at: "/kind",
                    "kind must be one of \(known)"
                )
            case "settings": settings = value
            case "status":
                let status = value.string.flatMap { ["enabled": true, "disabled": false][$0] }
                if let status = report.value(status, at: "/status", "status must be enabled or disabled") {
                    isEnabled = status
                }
            case "secret":
                guard !value.isNull else { return true }
                secret = report.value(
                    value.string.flatMap { (1...Self.maximumSecretBytes).contains($0.utf8.count) ? $0 : nil },
                    at: "/secret",
                    "secret must be a string of 1 to \(Self.maximumSecretBytes) bytes"
                )
            default: return false
            }
            return true
        } then: { report in
            if kind == nil, !report.problems.contains(where: { $0.pointer == "/kind" }) {
                report.refuse("/kind", Rule.required, "kind is required")
            }
            guard let settings else { return report.refuse("/settings", Rule.required, "settings is required") }
            guard let kind else { return }
            var defects = SettingsReport()
            update = SourceSettings(kind, settings, at: "/settings", &defects)
            report.problems += defects.problems
            if let json = update?.json, json.count > SourceSettings.maximumBytes {
                report.refuse("/settings", Rule.range, "settings may have at most \(SourceSettings.maximumBytes) bytes")
            }
            if kind == .webhook, let text = secret { secret = report.receiverSecret(text) }
        }
        guard let update else { throw Problem(.validationFailed, "the settings are incomplete") }
        self.init(settings: update, isEnabled: isEnabled, secret: secret)
    }

    /// Checks the source's address, as webhooks' URLs are checked.
    ///
    /// - Throws: `validation_failed` at `/secret`.
    package func check(_ policy: AddressPolicy) throws(Problem) {
        guard let detail = SourceSettings.problem(ofSecret: secret, for: settings.kind, under: policy) else { return }
        throw Problem(.validationFailed, pointer: "/secret", rule: Rule.range, detail)
    }

    /// The longest secret: a connection URI may hold certificates' names and more.
    private static let maximumSecretBytes = 4_096
}

/// The body of `POST …/sources/{name}/secret`.
struct SourceSecretRequest {
    private(set) var secret: String?
    private(set) var overlap = WebhookSecretRequest.usualOverlap

    init(body: [UInt8]) throws(Problem) {
        if body.isEmpty { return }
        var request = Self()
        try RequestReport.read(body, of: "a new secret: secret, overlap_seconds") { report, member, value in
            switch member {
            case "secret": request.secret = report.receiverSecret(value.string ?? "")
            case "overlap_seconds":
                if let overlap = report.overlap(value) { request.overlap = overlap }
            default: return false
            }
            return true
        }
        self = request
    }

    private init() {}
}

/// The body of `POST …/sources/{name}/run`.
struct SourceRunRequest {
    private(set) var beginning = SourceAdministration.Beginning.continuing

    init(body: [UInt8], of source: SourceRow) throws(Problem) {
        if body.isEmpty { return }
        var request = Self()
        try RequestReport.read(body, of: "a run: from") { report, member, value in
            guard member == "from" else { return false }
            var defects = SettingsReport()
            if let beginning = SourceAdministration.Beginning(from: value, of: source, &defects) {
                request.beginning = beginning
            }
            report.problems += defects.problems
            return true
        }
        self = request
    }

    private init() {}
}

extension SourceAdministration.Beginning {
    /// Reads the place at which a run begins: null for the beginning, or a place in the form of the source's settings.
    fileprivate init?(from value: JSONValue, of source: SourceRow, _ report: inout SettingsReport) {
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

    /// From JSON.
    ///
    /// - Throws: `invalid_json`; `validation_failed` if there is no such place.
    package init(from json: [UInt8], of source: SourceRow) throws(Problem) {
        let tree: JSONTree
        do throws(JSONParseError) {
            tree = try JSONTree(parsing: json)
        } catch {
            throw Problem(jsonError: error, limit: JSONLimits().maximumBytes)
        }
        var report = SettingsReport()
        guard let beginning = Self(from: tree.root, of: source, &report) else {
            let first = report.problems.first?.detail ?? "the place does not exist"
            throw Problem(.validationFailed, first, errors: report.problems)
        }
        self = beginning
    }
}

/// The body of `POST …/sources/{name}/test`: what would be sent, or asked for.
struct SourceTestRequest {
    /// JSON.
    private(set) var body: [UInt8] = []
    private(set) var messageID = "test"
    /// To be tried instead of the source's own.
    private(set) var mapping: SourceMapping?

    init(body: [UInt8]) throws(Problem) {
        var request = Self()
        var hasBody = false
        try RequestReport.read(body, of: "a test: body, headers, mapping") { report, member, value in
            switch member {
            case "body": (request.body, hasBody) = (Array(value.raw), true)
            case "headers":
                guard let id = report.messageID(value) else { return true }
                request.messageID = id
            case "mapping":
                guard !value.isNull else { return true }
                var defects = SettingsReport()
                request.mapping = SourceMapping(value, at: "/mapping", &defects)
                report.problems += defects.problems
            default: return false
            }
            return true
        } then: { report in
            if !hasBody { report.refuse("/body", Rule.required, "body is required: the message as JSON") }
        }
        self = request
    }

    private init() {}
}

extension RequestReport {
    /// What verifies messages: a secret or a public key, in its usual form.
    fileprivate mutating func receiverSecret(_ text: String) -> String? {
        let sizes = WebhookSecret.sizes
        let detail = """
            secret must be whsec_ and the base64 of \(sizes.lowerBound) to \(sizes.upperBound) bytes, or a public key: whpk_ \
            and the base64 of 32 bytes
            """
        var secret: String?
        if text.hasPrefix(WebhookSecret.prefix) { secret = WebhookSecret(text)?.text }
        if text.hasPrefix(WebhookPublicKey.prefix), WebhookPublicKey(text) != nil { secret = text }
        return value(secret, at: "/secret", detail)
    }

    fileprivate mutating func messageID(_ headers: JSONValue) -> String? {
        guard let members = headers.members else {
            refuse("/headers", Rule.memberType, "headers must be an object of names and strings")
            return nil
        }
        var found: String?
        for (name, value) in members where name.string.lowercased() == WebhookHeader.id {
            found = value.string.flatMap { (1...WebhookVerifier.maximumIDBytes).contains($0.utf8.count) ? $0 : nil }
            if found == nil {
                refuse("/headers/webhook-id", Rule.range, "webhook-id must be a string of 1 to 256 bytes")
            }
        }
        return found
    }
}
