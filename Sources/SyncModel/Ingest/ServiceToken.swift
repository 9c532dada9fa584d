import Crypto
public import FoundationEssentials

/// The credential of a program that sends events of an organization.
///
/// The text is `slt_` followed by the base64url of the organization's id, the token's id and a secret of 32 random
/// bytes.
public struct ServiceToken: Sendable, Hashable {
    public static let prefix = "slt_"
    private static let secretBytes = 32

    public let organization: UUID
    public let id: UUID
    private let secret: [UInt8]

    /// A new token with a random secret.
    public init(organization: UUID, id: UUID) {
        self.organization = organization
        self.id = id
        var generator = SystemRandomNumberGenerator()
        secret = (0..<Self.secretBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    /// Reads a token; nil for a text that is not a token.
    public init?(parsing text: some StringProtocol) {
        let text = String(text)
        guard text.utf8.count == Self.prefix.utf8.count + 86, text.hasPrefix(Self.prefix) else { return nil }
        let digits = String(text.dropFirst(Self.prefix.count))
        let base64 = digits.replacing("-", with: "+").replacing("_", with: "/") + "=="
        guard let data = Data(base64Encoded: base64), data.count == 64 else { return nil }
        let bytes = [UInt8](data)
        organization = Self.uuid(bytes[0..<16])
        id = Self.uuid(bytes[16..<32])
        secret = Array(bytes[32...])
        // the last digit has unused bits, and therefore several texts decode to the same token; only one of these texts
        // is accepted
        guard self.text == text else { return nil }
    }

    public var text: String {
        let bytes = withUnsafeBytes(of: organization.uuid) { Array($0) } + withUnsafeBytes(of: id.uuid) { Array($0) }
        let base64 = Data(bytes + secret).base64EncodedString()
        return Self.prefix + String(base64.prefix(86)).replacing("+", with: "-").replacing("/", with: "_")
    }

    /// The stored form of the secret. The secret cannot be computed from this hash, because the secret has 256 random
    /// bits.
    public var secretHash: [UInt8] { Array(SHA256.hash(data: secret)) }

    /// Whether the token has this stored hash. The comparison takes constant time, because its duration must not reveal
    /// anything about the secret.
    public func matches(_ hash: [UInt8]) -> Bool {
        let own = secretHash
        guard own.count == hash.count else { return false }
        return zip(own, hash).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }

    private static func uuid(_ bytes: ArraySlice<UInt8>) -> UUID {
        UUID(uuid: bytes.withUnsafeBytes { $0.loadUnaligned(as: uuid_t.self) })
    }
}

/// The origin of events that arrive with service tokens. All tokens of a source have its name.
public enum IngestSource {
    /// Whether a name matches `[a-z][a-z0-9_-]{0,63}`.
    public static func isValid(_ name: String) -> Bool { EntityType.isValidName(name) }

    /// The id that represents a source in queues and in ``FairShares``, where other jobs have the id of a user.
    public static func standInID(in organization: UUID, for source: String) -> UUID {
        var hash = SHA256()
        withUnsafeBytes(of: organization.uuid) { hash.update(bufferPointer: $0) }
        Array(source.utf8).withUnsafeBytes { hash.update(bufferPointer: $0) }
        return UUID(hash: hash.finalize())
    }
}
