/// Why there is no plan.
public enum PushRefusal: Error, Sendable {
    /// The whole push is refused and changes nothing.
    case problem(Problem)
    /// The push would be refused, or an entry of it, though the snapshot leaves out some of what the push names: look up
    /// the rest and plan again.
    case needsProbe
}
