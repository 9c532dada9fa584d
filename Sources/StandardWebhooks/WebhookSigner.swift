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
    ///   - secrets: one, or two while the receiver changes from one to the other: each makes a signature.
    ///   - key: makes one more; nil for none.
    public init(secrets: [WebhookSecret], key: WebhookSigningKey? = nil) {
        self.secrets = secrets
        self.key = key
    }

    /// The three headers of a message.
    ///
    /// - Parameters:
    ///   - id: the same for each attempt; without a dot, so that nothing else is signed by the same bytes.
    ///   - timestamp: of this attempt, in seconds since 1970.
    ///   - body: byte for byte as it is sent.
    /// - Throws: what the cryptography throws when it has no randomness; without a key, nothing.
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
