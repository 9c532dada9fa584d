/// Verifies messages according to Standard Webhooks 1.0.
///
/// See [Standard Webhooks](https://www.standardwebhooks.com).
///
/// ```swift
/// let verifier = WebhookVerifier(secrets: [secret])
/// try verifier.verify(id: id, timestamp: timestamp, signatures: signatures, body: body, now: seconds)
/// ```
///
/// The verifier accepts repeated messages. If a message must not take effect twice, the caller must store the ids of
/// messages for the time of `tolerance`.
public struct WebhookVerifier: Sendable {
    /// The default of `tolerance`, in seconds.
    public static let defaultTolerance: Int64 = 300
    /// The maximum length of an id, in bytes.
    public static let maximumIDBytes = 256
    /// The maximum length of a list of signatures, in bytes.
    ///
    /// The number of signatures is limited as well, because verifying a signature costs time.
    public static let maximumSignatureBytes = 4_096
    public static let maximumSignatures = 16

    private let secrets: [WebhookSecret]
    private let keys: [WebhookPublicKey]
    public let tolerance: Int64

    /// - Parameters:
    ///   - secrets: the secrets that are valid at present: usually one secret, or two during a change of the secret.
    ///   - keys: the sender's public keys.
    ///   - tolerance: the maximum difference between a message's time and the receiver's time, in seconds; at least 0.
    public init(secrets: [WebhookSecret], keys: [WebhookPublicKey] = [], tolerance: Int64 = defaultTolerance) {
        self.secrets = secrets
        self.keys = keys
        self.tolerance = max(0, tolerance)
    }

    /// Verifies a message. One valid signature is enough.
    ///
    /// Signatures of unknown schemes are skipped.
    ///
    /// - Parameters:
    ///   - id: the value of the header `webhook-id`; nil if the header is missing. The next two parameters are also
    ///     values of headers.
    ///   - body: the body exactly as it arrived.
    ///   - now: the receiver's time, in seconds since 1970.
    /// - Throws: ``WebhookVerificationError``.
    public func verify(
        id: String?,
        timestamp: String?,
        signatures: String?,
        body: [UInt8],
        now: Int64
    ) throws(WebhookVerificationError) {
        guard let id, !id.isEmpty else { throw .missing(WebhookHeader.id) }
        guard let timestamp, !timestamp.isEmpty else { throw .missing(WebhookHeader.timestamp) }
        guard let signatures, !signatures.isEmpty else { throw .missing(WebhookHeader.signature) }
        guard id.utf8.count <= Self.maximumIDBytes, !id.utf8.contains(UInt8(ascii: ".")) else { throw .malformedID }
        guard let seconds = Self.seconds(timestamp) else { throw .malformedTimestamp }
        guard signatures.utf8.count <= Self.maximumSignatureBytes else { throw .tooManySignatures }
        let list = signatures.split(separator: " ")
        guard list.count <= Self.maximumSignatures else { throw .tooManySignatures }
        // the message is composed of the received texts, so that exactly the signed bytes are verified
        let message = SignedMessage(id: id, timestamp: seconds, body: body)
        // the expected signature is computed once for each secret, not for each received signature, because a body may
        // be long
        let codes = secrets.map { $0.signature(of: message) }
        guard list.contains(where: { isGood($0, message, codes) }) else {
            throw list.contains { $0.hasPrefix("v1,") || $0.hasPrefix("v1a,") } ? .wrongSignature : .unknownScheme
        }
        // the age is checked last, so that it is reported only for messages that the sender has signed
        let age = now - seconds
        if age > tolerance { throw .tooOld(seconds: age) }
        if -age > tolerance { throw .tooNew(seconds: -age) }
    }

    /// Returns whether a signature of the list is valid.
    ///
    /// - Parameter codes: the signatures that the secrets produce for the message.
    private func isGood(_ signature: Substring, _ message: SignedMessage, _ codes: [[UInt8]]) -> Bool {
        let parts = signature.split(separator: ",", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let bytes = Base64Text.decode(parts[1]) else { return false }
        // all secrets are compared, so that the duration does not reveal which secret matched
        switch parts[0] {
        case "v1": return codes.reduce(false) { WebhookSecret.areSame($1, bytes) || $0 }
        case "v1a": return bytes.count == 64 && keys.contains { $0.verifies(bytes, of: message) }
        default: return false
        }
    }

    /// Reads a time, which may have only digits and no leading zeros.
    ///
    /// Only such a text is identical to the text that was signed.
    private static func seconds(_ text: String) -> Int64? {
        guard text.utf8.count <= 12, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text).flatMap { String($0) == text ? $0 : nil }
    }
}

/// The reason why a message was not accepted. Its description contains no secrets.
public enum WebhookVerificationError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The header is missing or empty.
    case missing(String)
    case malformedID
    case malformedTimestamp
    case tooManySignatures
    /// No signature has a known scheme.
    case unknownScheme
    /// No signature was made for this id, time and body with one of the secrets or keys.
    case wrongSignature
    /// The signature is valid, but the message is too old. The value is the message's age.
    case tooOld(seconds: Int64)
    /// The signature is valid, but the time of the message is too far in the future.
    case tooNew(seconds: Int64)

    public var description: String {
        switch self {
        case .missing(let header): "the header \(header) is missing"
        case .malformedID: "the header webhook-id is longer than 256 bytes, or has a dot"
        case .malformedTimestamp: "the header webhook-timestamp is not a number of seconds"
        case .tooManySignatures: "the header webhook-signature has more than 16 signatures or 4096 bytes"
        case .unknownScheme: "no signature has the scheme v1 or v1a"
        case .wrongSignature: "no signature matches this id, time and body with this secret or key"
        case .tooOld(let seconds): "the signature is valid, but \(seconds) seconds old"
        case .tooNew(let seconds): "the signature is valid, but \(seconds) seconds in the future"
        }
    }
}

/// Signs messages according to Standard Webhooks 1.0.
///
/// See [Standard Webhooks](https://www.standardwebhooks.com).
///
/// ```swift
/// let signer = WebhookSigner(secrets: [secret, previous], key: key)
/// for (name, value) in try signer.headers(id: "msg_1", timestamp: 1_614_265_330, body: body) { … }
/// ```
public struct WebhookSigner: Sendable {
    private let secrets: [WebhookSecret]
    private let key: WebhookSigningKey?

    /// - Parameters:
    ///   - secrets: one secret, or two while the receiver changes to a new secret. Each secret produces one signature.
    ///   - key: a key, which produces one more signature; nil for none.
    public init(secrets: [WebhookSecret], key: WebhookSigningKey? = nil) {
        self.secrets = secrets
        self.key = key
    }

    /// The three headers of a message.
    ///
    /// - Parameters:
    ///   - id: the message's id, which is the same for each attempt. The id must not contain a dot, because two
    ///     different messages could then have the same signed bytes.
    ///   - timestamp: the time of this attempt, in seconds since 1970.
    ///   - body: the body exactly as it is sent.
    /// - Throws: an error of the cryptography library, if there is a key and the system provides no random bytes.
    public func headers(id: String, timestamp: Int64, body: [UInt8]) throws -> [(name: String, value: String)] {
        precondition(!id.utf8.contains(UInt8(ascii: ".")), "an id with a dot would sign other messages, too")
        let message = SignedMessage(id: id, timestamp: timestamp, body: body)
        var signatures = secrets.map { "v1," + Base64Text.encode($0.signature(of: message)) }
        if let key { signatures.append("v1a," + Base64Text.encode(try key.signature(of: message))) }
        return [
            (WebhookHeader.id, id),
            (WebhookHeader.timestamp, String(timestamp)),
            (WebhookHeader.signature, signatures.joined(separator: " ")),
        ]
    }
}

/// The names of the headers, in lower case.
public enum WebhookHeader {
    public static let id = "webhook-id"
    public static let timestamp = "webhook-timestamp"
    public static let signature = "webhook-signature"
}

/// The signed bytes: id, time and body, with dots between them.
struct SignedMessage {
    /// The id and the time, each followed by a dot.
    let head: [UInt8]
    let body: [UInt8]

    init(id: String, timestamp: Int64, body: [UInt8]) {
        head = Array("\(id).\(timestamp).".utf8)
        self.body = body
    }
}
