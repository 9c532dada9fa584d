/// The rule for issuers' names, and for their names of users and organizations.
///
/// Such a name is opaque: neither trimmed nor normalized.
public enum ExternalName {
    /// Bytes of a name.
    public static let maximumBytes = 255
    /// Bytes of an issuer's own name.
    public static let maximumIssuerBytes = 1_000

    /// Whether a text can be stored and shown.
    ///
    /// 1 to ``maximumBytes`` bytes without control characters.
    public static func isValid(_ text: String) -> Bool {
        (1...maximumBytes).contains(text.utf8.count) && !hasControls(text)
    }

    /// Whether a text can be an issuer's name.
    ///
    /// The issuer without a name has the empty one.
    public static func isValidIssuer(_ text: String) -> Bool {
        text.utf8.count <= maximumIssuerBytes && !hasControls(text)
    }

    /// Whether a text has control characters.
    public static func hasControls(_ text: String) -> Bool {
        text.unicodeScalars.contains { $0.value < 0x20 || (0x7f...0x9f).contains($0.value) }
    }
}
