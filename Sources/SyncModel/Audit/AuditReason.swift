/// An operator's reason for an act, in the operator's own words.
///
/// Up to 500 bytes without control characters.
public enum AuditReason {
    public static let maximumBytes = 500

    /// The reason, or nil if the text is not a valid reason.
    public static func reading(_ text: String) -> String? {
        (1...maximumBytes).contains(text.utf8.count) && !ExternalName.hasControls(text) ? text : nil
    }
}
