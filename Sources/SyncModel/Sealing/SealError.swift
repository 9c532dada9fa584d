import JSONText

/// The reason why a value cannot be sealed or decrypted.
///
/// No case reveals anything about the value or a key.
public enum SealError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The organization's data are sealed, and the organization's data key is not available.
    ///
    /// The gateway neither reads nor writes the sealed data.
    case locked(String)
    /// The value was sealed with a data key that this gateway has not read.
    ///
    /// Either the data key is newer than the keys that were read, or it was deleted.
    case unknownKey(Int32)
    /// Values are sealed with users' keys that are not in memory.
    ///
    /// The keys must be read from the store.
    case unknownUserKeys(Set<LaneKey>)
    /// Values must be sealed for users whose keys are not in memory.
    ///
    /// The keys must be read from the store, or created.
    case noUserKeys(Set<LaneKey>)
    /// The value is sealed with a user's key that was destroyed, because the user was erased.
    case destroyedUserKey(LaneKey)
    /// The value is sealed with a user's key that this gateway cannot unwrap.
    case closedUserKey(String)
    /// The value was changed, or was written to another place.
    case damaged(String)

    /// The reason as text for the log.
    public var description: String {
        switch self {
        case .locked(let reason): reason
        case .unknownKey(let number): "a value is encrypted with data key \(number), which is unknown"
        case .unknownUserKeys(let users), .noUserKeys(let users): "\(users.count) users' keys are not in memory"
        case .destroyedUserKey(let name):
            "a value is encrypted with the key of user \(name.user.lowercased), which was deleted"
        case .closedUserKey(let reason): reason
        case .damaged(let place): "an encrypted \(place) cannot be decrypted: it was changed, or belongs to another row"
        }
    }

    /// Whether the cause of the error is that users' keys are not in memory.
    public var lacksUserKeys: Bool {
        switch self {
        case .unknownUserKeys, .noUserKeys: true
        case .locked, .unknownKey, .destroyedUserKey, .closedUserKey, .damaged: false
        }
    }
}
