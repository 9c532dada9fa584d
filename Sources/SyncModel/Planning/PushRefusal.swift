/// Why there is no plan.
public enum PushRefusal: Error, Sendable {
    /// The whole push is refused and changes nothing.
    case problem(Problem)
    /// The push, or an entry of it, would be refused, although the snapshot lacks some of what the push names: look up
    /// the rest and plan again.
    case needsProbe
    /// The push takes too much to be planned together with others; see ``DocumentBounds``.
    case isHeavy
    /// Documents of other pushes left no room for those of this one, which are few: read it without the heavy ones.
    case isCrowded
}
