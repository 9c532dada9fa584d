/// A text that holds public keys: PEM blocks or a JWKS document, told apart by their first character.
public struct TokenKeySource: Sendable, Equatable {
    /// The most bytes a source may have.
    public static let maximumBytes = 1_048_576

    /// Where the text is from, for error messages: a file's path or a URL.
    public let name: String
    /// The text.
    public let text: String

    /// A source whose text is at hand.
    public init(name: String, text: String) {
        self.name = name
        self.text = text
    }
}
