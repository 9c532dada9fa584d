import Crypto

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
