/// A text that holds public keys: PEM blocks or a JWKS document, told apart by their first character.
package struct TokenKeySource: Sendable, Equatable {
    /// The most bytes a source may have.
    package static let maximumBytes = 1_048_576

    /// Where the text is from, for error messages: a file's path or a URL.
    package let name: String
    package let text: String

    package init(name: String, text: String) {
        self.name = name
        self.text = text
    }
}
