/// How statements are put to servers of another kind. Each connection asks its server once whether it is of that kind,
/// in the round trip that applies the settings.
public struct Dialect: Sendable {
    /// Answers one row with one boolean: whether the server is of the kind.
    public var question: Statement
    /// What a server of the kind needs set otherwise than the configuration says.
    public var settings: [(String, String)]
    /// The text that a statement has there, for the same parameters.
    public var text: @Sendable (Statement) -> String
    /// Called on the connection's thread with each answer. It must not block.
    public var onAnswer: @Sendable (Bool) -> Void

    public init(
        question: Statement,
        settings: [(String, String)],
        text: @escaping @Sendable (Statement) -> String,
        onAnswer: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        self.question = question
        self.settings = settings
        self.text = text
        self.onAnswer = onAnswer
    }
}
