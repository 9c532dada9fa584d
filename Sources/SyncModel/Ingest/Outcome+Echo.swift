/// The expected echo of a request with an outcome, where the API reports its edits.
extension Outcome {
    public enum Echo: Sendable, Hashable {
        /// The request took effect, or may have: the API reports it.
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
    public var describesEntity: Bool {
        if case .none = entity { return false }
        return true
    }
}
