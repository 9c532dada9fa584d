/// A warning to the client about an accepted entry.
public enum PushWarning: Sendable, Hashable {
    /// An earlier mutation of the device named the client id of this create.
    ///
    /// It came before the create, so there the id is data.
    case clientIDWasData
}
