/// A warning to the client about an accepted entry.
public enum PushWarning: Sendable, Hashable {
    /// An earlier mutation of the device named the client id of this create before the create, so there it is data.
    case clientIDWasData
}
