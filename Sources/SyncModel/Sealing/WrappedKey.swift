import Crypto
public import FoundationEssentials

/// A stored data key of an organization, wrapped by a master key.
///
/// The organization's id is authenticated together with the key.
public struct WrappedKey: Sendable, Hashable {
    /// The number of the key. In each organization, the first key has the number 1.
    public let number: Int32
    /// The ``MasterKey/label`` of the master key that wraps this key.
    @Exact public private(set) var masterKey: String
    /// The nonce, the ciphertext and the tag, which together have 60 bytes.
    public let bytes: [UInt8]

    public init(number: Int32, masterKey: String, bytes: [UInt8]) {
        self.number = number
        self.masterKey = masterKey
        self.bytes = bytes
    }

    /// Creates a new data key.
    ///
    /// - Throws: ``SealError`` if the master key cannot be used, which does not happen with a key of 32 bytes.
    public static func new(
        number: Int32,
        of organization: UUID,
        by master: MasterKey
    ) throws(SealError) -> WrappedKey {
        try wrap(SymmetricKey(size: .bits256), number, organization, master)
    }

    /// The same data key, wrapped by another master key.
    ///
    /// - Throws: ``SealError/locked(_:)`` if the present master key is unknown, or does not unwrap the data key.
    public func rewrapped(
        of organization: UUID,
        by master: MasterKey,
        knowing masters: MasterKeys
    ) throws(SealError) -> WrappedKey {
        try Self.wrap(unwrapped(of: organization, masters), number, organization, master)
    }

    func unwrapped(of organization: UUID, _ masters: MasterKeys) throws(SealError) -> SymmetricKey {
        guard let master = masters[masterKey] else {
            throw .locked("the organization's data is encrypted, but master key \(masterKey) is not configured")
        }
        let place = Self.authenticated(number, organization)
        guard let key = KeyWrap.unwrap(bytes, by: master, authenticating: place) else {
            throw .locked("master key \(masterKey) does not unwrap the organization's data key \(number)")
        }
        return key
    }

    private static func wrap(
        _ key: SymmetricKey,
        _ number: Int32,
        _ organization: UUID,
        _ master: MasterKey
    ) throws(SealError) -> WrappedKey {
        let bytes = try KeyWrap.wrap(key, by: master, authenticating: authenticated(number, organization))
        return WrappedKey(number: number, masterKey: master.label, bytes: bytes)
    }

    private static func authenticated(_ number: Int32, _ organization: UUID) -> [UInt8] {
        var bytes = Array("sluice data key ".utf8)
        bytes.append(organization)
        withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
        return bytes
    }
}

/// A stored key of one user, wrapped by a master key.
///
/// The organization's id, and the id of the user for whom the key was created, are authenticated together with the key.
/// Values that are sealed with the key also contain this user's id. Therefore ``name`` keeps this user even if a join
/// moves the user's rows to another user.
public struct WrappedUserKey: Sendable, Hashable {
    /// The organization, and the user for whom the key was created.
    public let name: LaneKey
    /// The ``MasterKey/label`` of the master key that wraps this key.
    @Exact public private(set) var masterKey: String
    /// The nonce, the ciphertext and the tag, which together have 60 bytes.
    public let bytes: [UInt8]

    public init(name: LaneKey, masterKey: String, bytes: [UInt8]) {
        self.name = name
        self.masterKey = masterKey
        self.bytes = bytes
    }

    /// Creates a new key.
    public static func new(for user: LaneKey, by master: MasterKey) throws(SealError) -> WrappedUserKey {
        try wrap(SymmetricKey(size: .bits256), user, master)
    }

    /// The same key, wrapped by another master key.
    ///
    /// - Throws: ``SealError/locked(_:)`` if the present master key is unknown, or does not unwrap the key.
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

/// Wraps a key by a master key, with AES-256-GCM and a random nonce.
///
/// The owner of the wrapped key is authenticated together with the key.
enum KeyWrap {
    /// Returns the nonce, the ciphertext and the tag, which together have 60 bytes.
    ///
    /// - Throws: ``SealError`` if the master key cannot be used, which does not happen with a key of 32 bytes.
    static func wrap(
        _ key: SymmetricKey,
        by master: MasterKey,
        authenticating place: [UInt8]
    ) throws(SealError) -> [UInt8] {
        do {
            let plain = key.withUnsafeBytes { Data($0) }
            let box = try AES.GCM.seal(plain, using: master.key, authenticating: place)
            guard let bytes = box.combined else { throw SealError.damaged("data key") }
            return Array(bytes)
        } catch {
            throw .locked("master key \(master.label) cannot wrap a data key")
        }
    }

    /// Unwraps a key; nil if the key was changed, or belongs to another owner.
    static func unwrap(_ bytes: [UInt8], by master: MasterKey, authenticating place: [UInt8]) -> SymmetricKey? {
        guard let box = try? AES.GCM.SealedBox(combined: bytes),
            let plain = try? AES.GCM.open(box, using: master.key, authenticating: place)
        else { return nil }
        return SymmetricKey(data: plain)
    }
}

/// The users' own keys, for an organization with values that are sealed with these keys.
///
/// Such a value is sealed with both the organization's data key and the user's key.
public struct UserSealing: Sendable {
    /// The cached keys.
    let ring: UserKeyRing
    /// Whether new values are sealed with users' keys.
    ///
    /// Even if false, existing values that are sealed with users' keys are opened.
    let seals: Bool
    /// The types whose documents are visible only to the owners.
    let privateTypes: Set<ByteExactString>

    public init(_ ring: UserKeyRing, seals: Bool = false, privateTypes: Set<ByteExactString> = []) {
        self.ring = ring
        self.seals = seals
        self.privateTypes = privateTypes
    }

    /// The key that seals a user's values.
    ///
    /// The key is derived from both the organization's data key and the user's own key. Therefore both keys are
    /// required to open the values. The user's key is deleted when the user is erased.
    static func contentKey(_ data: SymmetricKey, _ own: SymmetricKey, of user: LaneKey) -> SymmetricKey {
        var info = Array("sluice content of ".utf8)
        info.append(user.organization)
        info.append(user.user)
        return own.withUnsafeBytes { salt in
            HKDF<SHA256>.deriveKey(inputKeyMaterial: data, salt: Array(salt), info: info, outputByteCount: 32)
        }
    }
}
