/// Why there is no plan.
public enum PushRefusal: Error, Sendable {
    /// The whole push is refused and changes nothing.
    case problem(Problem)
    /// The push, or an entry of it, would be refused, but the snapshot is incomplete.
    ///
    /// Look up the rest of the push's names and plan again.
    case needsProbe
    /// The push takes too much to be planned together with others.
    ///
    /// See ``DocumentBounds``.
    case requiresOwnBatch
    /// Documents of other pushes left no room for this push's few documents.
    ///
    /// Read it without the heavy ones.
    case isCrowded
}
