import HTTPTypes
import StandardWebhooks
import SyncHTTP
import SyncModel
import SyncStore

/// Verifies that a message is from its source.
///
/// A verification takes the same time for every source, and for a name without a source: random values replace the
/// missing ones of two secrets and two public keys.
struct SourceVerifier: Sendable {
    /// Secrets that are good at a time.
    private static let width = 2
    /// The number of signatures that are checked: the time for each of `v1a` grows with the body, and the sender is not
    /// authenticated yet.
    private static let maximumSignatures = 6

    /// The headers of a message, before its body is read.
    struct Head: Sendable {
        let id: String
        let timestamp: String
        let signatures: String

        /// Nil if a header is missing, or if the message would be refused from any sender.
        init?(_ headers: HTTPFields, now: Timestamp) {
            guard let id = headers[.webhookID], let timestamp = headers[.webhookTimestamp],
                let signatures = headers[.webhookSignature],
                !id.isEmpty, id.utf8.count <= WebhookVerifier.maximumIDBytes,
                // characters that the name of an event cannot have
                id.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f }),
                timestamp.utf8.count <= 12, let seconds = Int64(timestamp),
                abs(now.seconds - seconds) <= WebhookVerifier.usualTolerance,
                !signatures.isEmpty, signatures.utf8.count <= WebhookVerifier.maximumSignatureBytes,
                signatures.split(separator: " ").count <= maximumSignatures
            else { return nil }
            self.id = id
            self.timestamp = timestamp
            self.signatures = signatures
        }
    }

    /// Random secrets and keys, which belong to no source.
    private let secrets = (0..<width).map { _ in WebhookSecret() }
    private let keys = (0..<width).map { _ in WebhookSigningKey().publicKey }

    /// - Parameter receiver: nil if there is no such source: then no message is good, as of one that is disabled.
    func isGood(
        _ head: Head,
        _ body: [UInt8],
        of receiver: SourceReceivers.Receiver?,
        now: Timestamp
    ) -> Bool {
        let texts = receiver?.secrets ?? []
        let secrets = texts.compactMap { $0.hasPrefix(WebhookPublicKey.prefix) ? nil : WebhookSecret($0) }
        let keys = texts.compactMap { $0.hasPrefix(WebhookPublicKey.prefix) ? WebhookPublicKey($0) : nil }
        let verifier = WebhookVerifier(
            secrets: secrets + self.secrets.prefix(Self.width - secrets.count),
            keys: keys + self.keys.prefix(Self.width - keys.count)
        )
        do throws(WebhookVerificationError) {
            try verifier.verify(
                id: head.id,
                timestamp: head.timestamp,
                signatures: head.signatures,
                body: body,
                now: now.seconds
            )
            return receiver?.isEnabled == true
        } catch {
            return false
        }
    }
}
