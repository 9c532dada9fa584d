import FoundationEssentials
import JWTKit

extension TokenKeySource {
    /// The keys of all `PUBLIC KEY` blocks.
    ///
    /// Other text between them is ignored, as openssl does.
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
    /// A block with an unknown label counts as text, and the label appears in no message.
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
    /// Each kind of key refuses other kinds, so the first that accepts the block is the right one.
    private static func key(pem: String, position: String) async throws -> TokenKey {
        if let key = try? EdDSA.PublicKey(pem: pem) { return try await .eddsa(key, id: nil) }
        if let key = try? ES256PublicKey(pem: pem) { return try await .ecdsa(key, id: nil) }
        if let key = try? Insecure.RSA.PublicKey(pem: pem) { return try await .rsa(key, id: nil) }
        throw TokenConfigurationError(
            "\(position) is not a usable key. Use RSA with at least 2048 bits, EC P-256 or Ed25519."
        )
    }
}

extension Substring {
    fileprivate var trimmed: String {
        String(drop(while: \.isWhitespace).reversed().drop(while: \.isWhitespace).reversed())
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
