import Foundation
import Glibc
import StandardWebhooks

@testable import SyncModel

/// Requests to receivers, and addresses of webhooks; the first byte selects the kind.
enum WebhooksTarget {
    private static let id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    private static let seconds: Int64 = 1_614_265_330
    private static let body = Array(#"{"test": 2432232314}"#.utf8)
    private static let secret = WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    private static let key = WebhookSigningKey("whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=")
    private static let good: Set<String> = [
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE",
        "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag",
    ]

    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first, let text = String(validating: bytes.dropFirst(), as: UTF8.self) else { return }
        switch first % 5 {
        case 0: signatures(text)
        case 1: message(text)
        case 2: secrets(text)
        case 3: address(text)
        default: url(text)
        }
    }

    private static func verify(_ id: String, _ timestamp: String, _ signatures: String, _ body: [UInt8]) -> Bool {
        guard let secret, let key else { return false }
        let verifier = WebhookVerifier(secrets: [secret], keys: [key.publicKey])
        do throws(WebhookVerificationError) {
            try verifier.verify(id: id, timestamp: timestamp, signatures: signatures, body: body, now: seconds)
            return true
        } catch {
            return false
        }
    }

    /// Any list: valid exactly if it contains one of the two valid signatures.
    private static func signatures(_ text: String) {
        let isGood = verify(id, String(seconds), text, body)
        let parts = text.split(separator: " ")
        let names = parts.map { part in String(part.reversed().drop { $0 == "=" }.reversed()) }
        let holds = names.contains(where: good.contains) && parts.count <= 16 && text.utf8.count <= 4_096
        // padding may be omitted, and nothing else
        expect(!isGood || holds, "taken: \(text)")
    }

    /// The valid signatures with any other id, time and body, which are separate lines.
    private static func message(_ text: String) {
        let parts = text.split(separator: "\n", maxSplits: 2, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 3 else { return }
        let isGood = verify(parts[0], parts[1], good.joined(separator: " "), Array(parts[2].utf8))
        let isIt = parts[0] == id && parts[1] == String(seconds) && Array(parts[2].utf8) == body
        expect(isGood == isIt, "\(isGood): \(text)")
    }

    private static func secrets(_ text: String) {
        if let secret = WebhookSecret(text) {
            expect(WebhookSecret(secret.text) == secret, "decodes to another secret")
            let digits = text.hasPrefix(WebhookSecret.prefix) ? String(text.dropFirst(6)) : text
            let padded = digits + String(repeating: "=", count: (4 - digits.utf8.count % 4) % 4)
            expect(Data(base64Encoded: padded)?.base64EncodedString() == padded, "not canonical: \(text)")
        }
        if let key = WebhookSigningKey(text) { expect(WebhookSigningKey(key.text) != nil, "a key does not decode") }
        if let key = WebhookPublicKey(text) { expect(WebhookPublicKey(key.text)?.text == key.text, key.text) }
    }

    /// Parsed as the system does, or not at all.
    private static func address(_ text: String) {
        var (v4, v6) = (in_addr(), in6_addr())
        var other: [UInt8]?
        if inet_pton(AF_INET, text, &v4) == 1 { other = withUnsafeBytes(of: v4) { Array($0) } }
        if inet_pton(AF_INET6, text, &v6) == 1 { other = withUnsafeBytes(of: v6) { Array($0) } }
        // in C a text ends at a zero byte
        if text.utf8.contains(0) { other = nil }
        let address = IPAddress(text)
        expect(address?.bytes == other, "\(String(describing: address)) and \(String(describing: other)): \(text)")
        if let address { expect(IPAddress(address.description) == address, address.description) }
        _ = IPNetwork.list(text)
    }

    private static func url(_ text: String) {
        guard let url = try? WebhookURL(text) else { return }
        expect((try? WebhookURL(url.text)) == url, "the normal form differs: \(url.text)")
        guard let other = URLComponents(string: url.text) else { return expect(false, "no URL elsewhere: \(url.text)") }
        let host = other.host.map { $0.hasPrefix("[") ? String($0.dropFirst().dropLast()) : $0 }
        expect(host == url.host, "other parsers find another host: \(String(describing: other.host)) in \(url.text)")
        expect(other.user == nil && other.fragment == nil, "more than host, path and query: \(url.text)")
        expect(other.port ?? (url.isTLS ? 443 : 80) == url.port, "other parsers find another port: \(url.text)")
    }
}
