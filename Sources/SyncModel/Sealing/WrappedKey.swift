import Crypto
public import Foundation

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
