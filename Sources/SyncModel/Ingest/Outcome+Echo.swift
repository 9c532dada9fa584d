/// What is to be expected of a request once it has an outcome, where the API tells of its edits.
extension Outcome {
    public enum Echo: Sendable, Hashable {
        /// It took effect, or may have: the API tells of it.
        case expected
        /// It may have taken effect and is sent again: its outcome is to come.
        case open
        /// It took no effect.
        case none
    }

    public var echo: Echo {
        if status == .succeeded { return .expected }
        if isOutcomeUnknown { return status == .pending ? .open : .expected }
        return .none
    }

    /// Whether the feed learned from the outcome how the entity is.
    public var tellsOfEntity: Bool {
        if case .none = entity { return false }
        return true
    }
}
