/// One setting: its name, its possible values and its meaning.
///
/// The table of all of them (``all``) drives reading, validation, the help text and the warnings about unknown names.
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
        /// Secrets that can be sent as bearer tokens, or their digests.
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
    }

    /// The key in a configuration file; the variable is the same in capitals after `SLUICE_`.
    package let name: String
    package let form: Form
    /// The default, as text; nil if there is no default.
    package let fallback: String?
    /// Replaces `fallback` in the help text, if it needs an explanation.
    let fallbackHint: String?
    /// For the help text.
    private(set) var meaning = ""
    /// Never shown, and readable from a file that `…_FILE` names.
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

    /// The key of the file that contains the value; nil if the setting is no secret.
    package var fileName: String? { isSecret ? name + "_file" : nil }

    package static let prefix = "SLUICE_"

    package static func variable(for name: String) -> String { prefix + name.uppercased() }
}
