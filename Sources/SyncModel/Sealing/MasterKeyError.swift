import Crypto

/// An error in a text of master keys; never shows any of it but names.
public struct MasterKeyError: Error, Sendable, Hashable, CustomStringConvertible {
    public let description: String
}
