import Crypto
public import FoundationEssentials

/// A stored data key of an organization, wrapped by a master key.
///
/// Its organization is authenticated.
public struct WrappedKey: Sendable, Hashable {
    /// 1 for the first of the organization.
    public let number: Int32
    /// The ``MasterKey/label`` of the master key that wraps it.
    @Exact public private(set) var masterKey: String
    /// Nonce, ciphertext and tag: 60 bytes.
    public let bytes: [UInt8]

    public init(number: Int32, masterKey: String, bytes: [UInt8]) {
        self.number = number
        self.masterKey = masterKey
        self.bytes = bytes
    }

    /// A new data key.
    ///
    /// - Throws: ``SealError`` where the master key cannot be used, which does not happen with one of 32 bytes.
    public static func new(
        number: Int32,
        of organization: UUID,
        by master: MasterKey
    ) throws(SealError) -> WrappedKey {
        try wrap(SymmetricKey(size: .bits256), number, organization, master)
    }

    /// The same data key under another master key.
    ///
    /// - Throws: ``SealError/locked(_:)`` where its present master key is not among the known ones, or does not unwrap
    ///   it.
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

/// Wraps a data key by a master key: AES-256-GCM with a random nonce.
///
/// The key's owner is authenticated.
enum KeyWrap {
    /// Nonce, ciphertext and tag: 60 bytes.
    ///
    /// - Throws: ``SealError`` where the master key cannot be used, which does not happen with one of 32 bytes.
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

    /// Nil where the key was changed, or is another's.
    static func unwrap(_ bytes: [UInt8], by master: MasterKey, authenticating place: [UInt8]) -> SymmetricKey? {
        guard let box = try? AES.GCM.SealedBox(combined: bytes),
            let plain = try? AES.GCM.open(box, using: master.key, authenticating: place)
        else { return nil }
        return SymmetricKey(data: plain)
    }
}

/// How an organization's values are sealed with users' own keys, if at all.
///
/// They are sealed with the organization's key in addition.
public struct UserSealing: Sendable {
    /// The cached keys.
    let ring: UserKeyRing
    /// Whether new values are sealed with them.
    ///
    /// Existing ones are opened in any case.
    let seals: Bool
    /// Types whose documents only their owners see.
    let privateTypes: Set<ByteExactString>

    public init(_ ring: UserKeyRing, seals: Bool = false, privateTypes: Set<ByteExactString> = []) {
        self.ring = ring
        self.seals = seals
        self.privateTypes = privateTypes
    }

    /// The key that seals a user's values.
    ///
    /// Opening them requires both the organization's data key and the user's own. The latter is deleted when the user
    /// is erased.
    static func contentKey(_ data: SymmetricKey, _ own: SymmetricKey, of user: LaneKey) -> SymmetricKey {
        var info = Array("sluice content of ".utf8)
        info.append(user.organization)
        info.append(user.user)
        return own.withUnsafeBytes { salt in
            HKDF<SHA256>.deriveKey(inputKeyMaterial: data, salt: Array(salt), info: info, outputByteCount: 32)
        }
    }
}
