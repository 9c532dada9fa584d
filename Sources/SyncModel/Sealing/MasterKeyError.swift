import Crypto

/// What is wrong with a text of master keys; never shows any of it but names.
public struct MasterKeyError: Error, Sendable, Hashable, CustomStringConvertible {
    /// In words.
    public let description: String
}
