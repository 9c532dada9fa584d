/// A configuration that cannot work; the text is for the operator.
package struct TokenConfigurationError: Error, Sendable, CustomStringConvertible {
    /// What is wrong and what to do, in a sentence or two; holds no secret.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
