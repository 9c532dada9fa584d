import Crypto

/// A stored key of one user, wrapped by a master key.
///
/// The organization and the user that it was made for are authenticated. That user never changes, even where the rows
/// become another's: values sealed with the key name it.
public struct WrappedUserKey: Sendable, Hashable {
    /// The organization, and the user that it was made for.
    public let name: LaneKey
    /// The ``MasterKey/label`` of the master key that wraps it.
    @Exact public private(set) var masterKey: String
    /// Nonce, ciphertext and tag: 60 bytes.
    public let bytes: [UInt8]

    public init(name: LaneKey, masterKey: String, bytes: [UInt8]) {
        self.name = name
        self.masterKey = masterKey
        self.bytes = bytes
    }

    /// A new key.
    public static func new(for user: LaneKey, by master: MasterKey) throws(SealError) -> WrappedUserKey {
        try wrap(SymmetricKey(size: .bits256), user, master)
    }

    /// The same key under another master key.
    ///
    /// - Throws: ``SealError/locked(_:)`` where its present master key is not among the known ones, or does not unwrap
    ///   it.
    public func rewrapped(by master: MasterKey, knowing masters: MasterKeys) throws(SealError) -> WrappedUserKey {
        try Self.wrap(unwrapped(masters), name, master)
    }

    func unwrapped(_ masters: MasterKeys?) throws(SealError) -> SymmetricKey {
        guard let master = masters?[masterKey] else {
            throw .locked("a user's key is wrapped by master key \(masterKey), which is not configured")
        }
        guard let key = KeyWrap.unwrap(bytes, by: master, authenticating: Self.authenticated(name)) else {
            throw .locked("master key \(masterKey) does not unwrap a user's key")
        }
        return key
    }

    private static func wrap(_ key: SymmetricKey, _ name: LaneKey, _ master: MasterKey) throws(SealError) -> Self {
        let bytes = try KeyWrap.wrap(key, by: master, authenticating: authenticated(name))
        return WrappedUserKey(name: name, masterKey: master.label, bytes: bytes)
    }

    private static func authenticated(_ name: LaneKey) -> [UInt8] {
        var bytes = Array("sluice user key ".utf8)
        bytes.append(name.organization)
        bytes.append(name.user)
        return bytes
    }
}
