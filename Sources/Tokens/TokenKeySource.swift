import FoundationEssentials
import JSONText
import JWTKit

/// A text with public keys: PEM blocks or a JWKS document. The first character distinguishes the two forms.
package struct TokenKeySource: Sendable, Equatable {
    /// The largest source, in bytes.
    package static let maximumBytes = 1_048_576

    /// The origin for error messages: a file's path or a URL.
    package let name: String
    package let text: String

    package static func == (left: Self, right: Self) -> Bool {
        left.name.utf8.elementsEqual(right.name.utf8) && left.text.utf8.elementsEqual(right.text.utf8)
    }

    package init(name: String, text: String) {
        self.name = name
        // a byte order mark is not part of a text (RFC 8259, 8.1, allows readers to ignore it)
        let hasMark = text.unicodeScalars.first == "\u{feff}"
        self.text = hasMark ? String(text.unicodeScalars.dropFirst()) : text
    }
}

extension TokenKeySource {
    /// The keys of a source that the operator configured.
    ///
    /// - Throws: `TokenConfigurationError` if a key is unusable, or there is no key.
    func keys() async throws -> [TokenKey] {
        try requireSize()
        return text.first(where: { !$0.isWhitespace }) == "{" ? try await jwksKeys() : try await pemKeys()
    }

    /// Examines a published document, for `sluice doctor`.
    ///
    /// - Returns: the number of usable keys, and for each skipped key its position (counted from 1) and the reason.
    /// - Throws: ``TokenConfigurationError`` if the source is not a JWKS document.
    package func examine() async throws -> (usable: Int, skipped: [String]) {
        try requireSize()
        let published = try await publishedKeys()
        return (published.keys.count, published.skipped.map { "key \($0.position): \($0.reason)" })
    }

    private func requireSize() throws {
        guard text.utf8.count <= Self.maximumBytes else {
            throw TokenConfigurationError("\(name) is larger than \(Self.maximumBytes) bytes.")
        }
    }
}

// MARK: - JWKMember

/// The parameters of a key in a JWKS document (RFC 7517) that the gateway uses.
private struct JWKMember: Decodable {
    var kty: String
    var kid: String?
    var use: String?
    var alg: String?
    var crv: String?
    var n: String?
    var e: String?
    var x: String?
    var y: String?
    var d: String?
}

/// An element of `keys` in a JWKS document; nil if it does not have the form of a key.
private struct AnyMember: Decodable {
    let member: JWKMember?

    init(from decoder: any Decoder) throws {
        member = try? JWKMember(from: decoder)
    }
}

private struct JWKDocument: Decodable {
    var keys: [AnyMember]
}

/// An unused key of a published document.
struct SkippedKey: Sendable, Equatable {
    /// The position in the document, counted from 1.
    let position: Int
    let reason: String
    /// Whether the key must not be published, because everyone who has it can sign.
    let isSecret: Bool
}

/// The usable keys of a published document, and the keys that were skipped.
struct PublishedKeys: Sendable {
    var keys: [TokenKey] = []
    var skipped: [SkippedKey] = []

    /// Whether the issuer has withdrawn all earlier keys.
    ///
    /// This is the case if all keys of the document can be read, and no key is usable.
    ///
    /// Unusable keys are, for example, keys for encryption, and secrets, which are never used. A document that contains
    /// only such keys no longer contains the earlier keys. A key that cannot be read may be a usable key with a
    /// mistake. Therefore a document with such a key does not withdraw the earlier keys.
    var withdrawsAll: Bool { keys.isEmpty && skipped.allSatisfy { $0.reason != TokenKeySource.unusable } }
}

extension TokenKeySource {
    /// The signature keys of a configured JWKS document.
    ///
    /// Keys of other types, curves, algorithms and uses are skipped, as RFC 7517 requires. A private or malformed key
    /// is an error.
    func jwksKeys() async throws -> [TokenKey] {
        let published = try await publishedKeys()
        if let secret = published.skipped.first(where: \.isSecret), secret.reason != Self.symmetric {
            throw TokenConfigurationError(
                "key \(secret.position) of \(name) is a private key. Use its public key only."
            )
        }
        if let broken = published.skipped.first(where: { $0.reason == Self.unusable }) {
            throw TokenConfigurationError(
                "key \(broken.position) of \(name) is not a usable key: RSA of at least 2048 bits, EC on P-256 or "
                    + "Ed25519 is."
            )
        }
        guard !published.keys.isEmpty else {
            throw TokenConfigurationError("\(name) contains no key for RS256, ES256 or EdDSA.")
        }
        return published.keys
    }

    /// The signature keys of a published document.
    ///
    /// An invalid key does not cause other keys to be rejected (RFC 7517, section 5). Secrets and private keys are
    /// never used, because every reader of the document could sign with them.
    ///
    /// - Throws: `TokenConfigurationError` for an invalid document, or too many keys.
    func publishedKeys() async throws -> PublishedKeys {
        do throws(JSONParseError) {
            _ = try JSONTree(parsing: Array(text.utf8))
        } catch {
            throw TokenConfigurationError("\(name) is not JSON: \(error.explanation(in: Array(text.utf8)))")
        }
        let decoder = DefaultJWTParser().jsonDecoder
        guard let document = try? decoder.decode(JWKDocument.self, from: Data(text.utf8)) else {
            throw TokenConfigurationError("\(name) is not a JWKS document.")
        }
        var published = PublishedKeys()
        for (index, entry) in document.keys.enumerated() {
            let skip = { (reason: String, isSecret: Bool) in
                published.skipped.append(SkippedKey(position: index + 1, reason: reason, isSecret: isSecret))
            }
            guard let member = entry.member else {
                skip(Self.unusable, false)
                continue
            }
            if member.kty == "oct" {
                skip(Self.symmetric, true)
            } else if member.d != nil {
                skip("a private key", true)
            } else if member.use != nil, member.use != "sig" {
                skip("not for signatures", false)
            } else {
                do {
                    if let key = try await Self.key(member) {
                        published.keys.append(key)
                    } else {
                        skip("of a type, curve or algorithm that is not supported", false)
                    }
                } catch {
                    skip(Self.unusable, false)
                }
            }
        }
        guard published.keys.count <= TokenKeySet.maximumKeys else {
            throw TokenConfigurationError("\(name) contains more than \(TokenKeySet.maximumKeys) keys.")
        }
        return published
    }

    private static let symmetric = "a shared secret"
    fileprivate static let unusable = "not a usable key"

    /// Reads a key. Returns nil for a valid key whose type, curve or algorithm is not supported.
    private static func key(_ member: JWKMember) async throws -> TokenKey? {
        switch (member.kty, member.crv, member.alg ?? "") {
        case ("RSA", _, ""), ("RSA", _, "RS256"):
            let key = try Insecure.RSA.PublicKey(modulus: member.n ?? "", exponent: member.e ?? "")
            return try await .rsa(key, id: member.kid)
        case ("EC", "P-256", ""), ("EC", "P-256", "ES256"):
            let key = try ES256PublicKey(parameters: (member.x ?? "", member.y ?? ""))
            return try await .ecdsa(key, id: member.kid)
        case ("OKP", "Ed25519", ""), ("OKP", "Ed25519", "EdDSA"), ("OKP", "Ed25519", "Ed25519"):
            return try await .eddsa(EdDSA.PublicKey(x: member.x ?? "", curve: .ed25519), id: member.kid)
        default:
            return nil
        }
    }
}

extension TokenKeySource {
    /// The keys of all `PUBLIC KEY` blocks.
    ///
    /// Other text between the blocks is ignored, as in openssl.
    func pemKeys() async throws -> [TokenKey] {
        var keys: [TokenKey] = []
        for block in try pemBlocks() {
            let position = "block \(keys.count + 1) of \(name)"
            guard block.label == "PUBLIC KEY" else {
                let advice = block.label.hasSuffix("PRIVATE KEY") ? " Use its public key (openssl pkey -pubout)." : ""
                throw TokenConfigurationError("\(position) is a \(block.label), not a PUBLIC KEY.\(advice)")
            }
            keys.append(try await Self.key(pem: block.text, position: position))
        }
        guard !keys.isEmpty else { throw TokenConfigurationError("\(name) contains no public key.") }
        return keys
    }

    /// All blocks, with their labels.
    ///
    /// A block with an unknown label is treated as other text. Messages never contain such a label.
    func pemBlocks() throws -> [(label: String, text: String)] {
        var blocks: [(label: String, text: String)] = []
        var open: (label: String, lines: [String])?
        for line in text.split(whereSeparator: \.isNewline) {
            let line = line.trimmed
            if let label = line.between("-----BEGIN ", "-----") {
                open = (label, [line])
            } else if let label = line.between("-----END ", "-----") {
                guard let block = open, block.label == label else {
                    throw TokenConfigurationError("\(name) has an END \(label) without its BEGIN.")
                }
                blocks.append((label, (block.lines + [line]).joined(separator: "\n")))
                open = nil
            } else {
                open?.lines.append(line)
            }
        }
        if let open { throw TokenConfigurationError("\(name) has a BEGIN \(open.label) without its END.") }
        return blocks
    }

    /// Reads one key.
    ///
    /// Each kind of key refuses blocks of other kinds, so the first kind that accepts the block is correct.
    private static func key(pem: String, position: String) async throws -> TokenKey {
        if let key = try? EdDSA.PublicKey(pem: pem) { return try await .eddsa(key, id: nil) }
        if let key = try? ES256PublicKey(pem: pem) { return try await .ecdsa(key, id: nil) }
        if let key = try? Insecure.RSA.PublicKey(pem: pem) { return try await .rsa(key, id: nil) }
        throw TokenConfigurationError(
            "\(position) is not a usable key. Use RSA with at least 2048 bits, EC P-256 or Ed25519."
        )
    }
}

extension String {
    fileprivate func between(_ prefix: String, _ suffix: String) -> String? {
        guard hasPrefix(prefix), hasSuffix(suffix), count > prefix.count + suffix.count else { return nil }
        let label = dropFirst(prefix.count).dropLast(suffix.count)
        let isLabel = label.utf8.allSatisfy { (65...90).contains($0) || (48...57).contains($0) || $0 == 32 }
        return isLabel ? String(label) : nil
    }
}
