/// What a client is told about an entry that was taken all the same.
public enum PushWarning: Sendable, Hashable {
    /// An earlier mutation of the device named the client id of this create before it was one, so there it is data.
    case clientIDWasData
}
