import FoundationEssentials
import JSONText
import Logging
import Postgres
import StandardWebhooks
import SyncHTTP
import SyncModel
import Tokens

/// One setting: its name, its possible values and its meaning.
///
/// The table of all settings (``all``) is used to read and validate settings. It is also used for the help text, and
/// for warnings about unknown names.
package struct Setting: Sendable {
    /// The form of a value.
    package enum Form: Sendable {
        case text
        case databaseURL
        case path
        /// `host:port`.
        case address
        case number(ClosedRange<Int>)
        /// A number with or without a fraction, without sign and exponent.
        case decimal(ClosedRange<Double>)
        case choice([String])
        /// A secret of at least this many bytes.
        case secret(minimumBytes: Int)
        /// Secrets that can be sent as bearer tokens, or the digests of such secrets.
        case operatorTokens
        /// `http://` or `https://`.
        case keySetURL
        /// A claim's name, or a path to it.
        case claimPlace
        case uuid
        /// Origins of web pages, and patterns of subdomains.
        case origins
        /// Blocks of IP addresses.
        case networks
        /// A private key that signs webhooks.
        case webhookKey
        /// The `http://` or `https://` URL of one of the operator's programs.
        case receiverURL
        /// `name=value`, separated by commas, as in W3C Baggage.
        case headers
    }

    /// The key in a configuration file.
    ///
    /// The environment variable has the same name in capitals, after the prefix `SLUICE_`. Names that OpenTelemetry
    /// defines do not get this prefix.
    package let name: String
    package let form: Form
    /// The default, as text; nil if there is no default.
    package let fallback: String?
    /// The text that replaces `fallback` in the help text, if the default needs an explanation.
    let fallbackHint: String?
    /// The explanation in the help text.
    private(set) var meaning = ""
    /// Whether the value is a secret. A secret is never shown, and can be read from the file that `…_FILE` names.
    let isSecret: Bool

    init(_ name: String, _ form: Form, _ fallback: String? = nil, hint: String? = nil, isSecret: Bool = false) {
        self.name = name
        self.form = form
        self.fallback = fallback
        fallbackHint = hint
        self.isSecret = isSecret
    }

    func meaning(_ text: String) -> Setting {
        var setting = self
        setting.meaning = text
        return setting
    }

    package var variable: String { Self.variable(for: name) }

    /// The configuration key for the path of a file that contains the value (`…_file`); nil if the setting is not a
    /// secret.
    package var fileName: String? { isSecret ? name + "_file" : nil }

    package static let prefix = "SLUICE_"

    /// The beginning of the names that OpenTelemetry defines for all programs.
    static let sharedPrefix = "otel_"

    package static func variable(for name: String) -> String {
        (name.hasPrefix(sharedPrefix) ? "" : prefix) + name.uppercased()
    }
}

extension Setting.Form {
    /// The allowed values. The text continues a sentence that ends with "must be".
    package var allowed: String {
        switch self {
        case .text: "a non-empty text without control characters"
        case .path: "a non-empty text"
        case .databaseURL:
            "a libpq URI such as postgresql://user@host:5432/sluice, or libpq's key=value form; in a password, "
                + "escape @ "
                + "as %40, / as %2F"
        case .address: "host:port such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 to 65535"
        case .number(let range): "a whole number from \(range.lowerBound) to \(range.upperBound)"
        case .decimal(let range): "a number from \(Self.shown(range.lowerBound)) to \(Self.shown(range.upperBound))"
        case .choice(let choices): "one of \(choices.joined(separator: ", "))"
        case .secret(let bytes): "at least \(bytes) bytes long"
        case .operatorTokens:
            "up to \(OperatorTokens.maximum) tokens, separated by spaces or line ends. Each is [name@][scope:]SECRET. "
                + "The scope is read, settle or admin. SECRET is at least \(OperatorTokens.minimumBytes) letters, "
                + "digits or -._~+/=, or sha256: and 64 hexadecimal digits"
        case .keySetURL: "a URL such as https://id.example/.well-known/jwks.json, without user and password"
        case .claimPlace:
            "a claim's name, or a path to it such as $.o.id or $['https://acme.example/org'] (JSONPath, of names and "
                + "indices only)"
        case .uuid: "a UUID such as 0192f0c1-2345-7abc-8def-0123456789ab"
        case .origins:
            "up to \(AllowedOrigins.maximum) origins such as https://app.example.org, or https://*.example.org for its "
                + "subdomains, separated by spaces, in lower case, without a path and without the scheme's default port"
        case .networks: "networks such as 10.0.0.0/8 or fd00::/8, separated by spaces or commas"
        case .webhookKey: "whsk_ and the base64 of an Ed25519 key, as `sluice webhooks create-key` prints it"
        case .receiverURL: "a URL such as http://collector:4318, without user, password and query"
        case .headers: "headers such as api-key=secret, separated by commas, with other characters percent-encoded"
        }
    }

    /// The type, in a word or two.
    var typeName: String {
        switch self {
        case .text: "text"
        case .databaseURL: "libpq URI"
        case .path: "path"
        case .address: "host:port"
        case .number(let range): "\(range.lowerBound) to \(range.upperBound)"
        case .decimal(let range): "\(Self.shown(range.lowerBound)) to \(Self.shown(range.upperBound))"
        case .choice(let choices): choices.joined(separator: " | ")
        case .secret(let bytes): "text, at least \(bytes) bytes"
        case .operatorTokens:
            "[name@][scope:], then a text of at least \(OperatorTokens.minimumBytes) bytes or sha256:HEX"
        case .keySetURL: "URL"
        case .claimPlace: "name or path"
        case .uuid: "UUID"
        case .origins: "origins, separated by spaces"
        case .networks: "networks, separated by spaces"
        case .webhookKey: "whsk_…"
        case .receiverURL: "URL"
        case .headers: "name=value, separated by commas"
        }
    }

    func accepts(_ text: String) -> Bool {
        switch self {
        case .text: !text.isEmpty && !ExternalName.hasControls(text)
        case .path: !text.isEmpty
        case .databaseURL: ConnectionConfiguration.isURI(text)
        case .address: ListenAddress(parsing: text) != nil
        case .number(let range): Self.wholeNumber(text).map(range.contains) ?? false
        case .decimal(let range): Self.decimal(text).map(range.contains) ?? false
        case .choice(let choices): choices.contains(text)
        case .secret(let bytes): text.utf8.count >= bytes
        case .operatorTokens: OperatorTokens(parsing: text) != nil
        case .keySetURL: KeySetURL.problem(text) == nil
        case .claimPlace: !ExternalName.hasControls(text) && (try? ClaimPlace(parsing: text)) != nil
        case .uuid: UUID(parsing: text) != nil
        case .origins: AllowedOrigins(parsing: text) != nil
        case .networks: IPNetwork.list(text) != nil
        case .webhookKey: WebhookSigningKey(text) != nil
        case .receiverURL: (try? BaseURL(text)) != nil
        case .headers: HeaderList(text) != nil
        }
    }

    /// Reads digits, optionally followed by a point and further digits.
    static func decimal(_ text: String) -> Double? {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard (1...2).contains(parts.count), parts.allSatisfy({ wholeNumber(String($0)) != nil }) else { return nil }
        return Double(text)
    }

    private static func shown(_ number: Double) -> String {
        number == number.rounded() ? "\(Int(number))" : "\(number)"
    }

    /// Reads digits only, without sign, space and exponent.
    static func wholeNumber(_ text: String) -> Int? {
        text.utf8.allSatisfy { (48...57).contains($0) } ? Int(text) : nil
    }
}
