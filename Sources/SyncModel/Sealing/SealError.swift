/// Why a value cannot be sealed or opened. No case reveals anything about the value or a key.
public enum SealError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The organization's data are sealed, and its key is not available: none of it is served or written.
    case locked(String)
    /// The value was sealed under a data key that is unknown here: a newer one, or one that was dropped.
    case unknownKey(Int32)
    /// The value was changed, or was not written to this place.
    case damaged(String)

    /// The reason in words, for the log.
    public var description: String {
        switch self {
        case .locked(let reason): reason
        case .unknownKey(let number): "a value is sealed under data key \(number), which is not known"
        case .damaged(let place): "a sealed \(place) does not open: it was changed, or belongs elsewhere"
        }
    }
}
