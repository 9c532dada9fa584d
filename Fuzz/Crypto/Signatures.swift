internal import COpenSSL
internal import Foundation

// The parts of swift-crypto that webhook signatures use, implemented with the system's OpenSSL.

package struct SymmetricKey {
    package struct Size: Sendable {
        package static let bits256 = Size()
    }

    fileprivate let bytes: [UInt8]

    package init(data: some Sequence<UInt8>) { bytes = Array(data) }

    package init(size: Size) { bytes = (0..<32).map { _ in .random(in: 0...255) } }

    package func withUnsafeBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        bytes.withUnsafeBytes(body)
    }
}

package struct HMAC<Hash> {
    private let key: [UInt8]
    private var bytes: [UInt8] = []

    package init(key: SymmetricKey) { self.key = key.bytes }

    package mutating func update(data: some Sequence<UInt8>) { bytes += data }

    package func finalize() -> [UInt8] {
        var code = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        _ = COpenSSL.HMAC(EVP_sha256(), key, Int32(key.count), bytes, bytes.count, &code, &length)
        return code
    }
}

package enum Curve25519 {
    package enum Signing {
        package struct Refused: Error {}

        package struct PrivateKey: Sendable {
            package let rawRepresentation: [UInt8]

            package init() { rawRepresentation = (0..<32).map { _ in .random(in: 0...255) } }

            package init(rawRepresentation: some Sequence<UInt8>) throws {
                self.rawRepresentation = Array(rawRepresentation)
                if self.rawRepresentation.count != 32 { throw Refused() }
            }

            package var publicKey: PublicKey {
                var bytes = [UInt8](repeating: 0, count: 32)
                var length = 32
                let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, rawRepresentation, 32)
                defer { EVP_PKEY_free(key) }
                EVP_PKEY_get_raw_public_key(key, &bytes, &length)
                return PublicKey(bytes)
            }

            package func signature(for data: [UInt8]) throws -> [UInt8] {
                let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, rawRepresentation, 32)
                let context = EVP_MD_CTX_new()
                defer {
                    EVP_MD_CTX_free(context)
                    EVP_PKEY_free(key)
                }
                var signature = [UInt8](repeating: 0, count: 64)
                var length = 64
                EVP_DigestSignInit(context, nil, nil, nil, key)
                EVP_DigestSign(context, &signature, &length, data, data.count)
                return signature
            }
        }

        package struct PublicKey: Sendable {
            package let rawRepresentation: [UInt8]

            fileprivate init(_ bytes: [UInt8]) { rawRepresentation = bytes }

            package init(rawRepresentation: some Sequence<UInt8>) throws {
                self.rawRepresentation = Array(rawRepresentation)
                if self.rawRepresentation.count != 32 { throw Refused() }
            }

            package func isValidSignature(_ signature: [UInt8], for data: [UInt8]) -> Bool {
                guard let key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nil, rawRepresentation, 32) else {
                    return false
                }
                let context = EVP_MD_CTX_new()
                defer {
                    EVP_MD_CTX_free(context)
                    EVP_PKEY_free(key)
                }
                EVP_DigestVerifyInit(context, nil, nil, nil, key)
                return EVP_DigestVerify(context, signature, signature.count, data, data.count) == 1
            }
        }
    }
}
