/// The rule for what issuers call users and organizations, and for what they are called themselves. Such a name is
/// opaque: neither trimmed nor brought into a form.
public enum ExternalName {
    /// Bytes of a name.
    public static let maximumBytes = 255
    /// Bytes of an issuer's own name.
    public static let maximumIssuerBytes = 1_000

    /// Whether a text can be remembered and shown: 1 to ``maximumBytes`` bytes without control characters.
    public static func isValid(_ text: String) -> Bool {
        (1...maximumBytes).contains(text.utf8.count) && !hasControls(text)
    }

    /// Whether a text can be an issuer's name; the issuer without one has the empty name.
    public static func isValidIssuer(_ text: String) -> Bool {
        text.utf8.count <= maximumIssuerBytes && !hasControls(text)
    }

    /// Whether a text has control characters.
    public static func hasControls(_ text: String) -> Bool {
        text.unicodeScalars.contains { $0.value < 0x20 || (0x7f...0x9f).contains($0.value) }
    }
}
