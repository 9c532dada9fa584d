/// A configuration that cannot work; the text is for the operator.
package struct TokenConfigurationError: Error, Sendable, CustomStringConvertible {
    /// The defect and its remedy, in a sentence or two; holds no secret.
    package let description: String

    init(_ description: String) {
        self.description = description
    }
}
