import StandardWebhooks
import Testing

@Suite struct StandardWebhooksTests {
    static let id = "msg_p5jXN8AQM9LWM0D4loKWxJek"
    static let seconds: Int64 = 1_614_265_330
    static let body = Array(#"{"test": 2432232314}"#.utf8)
    static let secret = WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")!
    static let signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    static let key = WebhookSigningKey("whsk_VEVTVFNJR05JTkdLRVlET05PVFVTRVRISVNGT1JBTlk=")!
    static let keySignature =
        "v1a,tQ9V2XOqn7jL/DQenEFpqIugdBVtiMmER5mhSkXBNwM0mkATuDe6KYYUuxqtaiHeYGb7KaaBRdM5WqyeFiL8Ag=="

    private func verify(
        _ verifier: WebhookVerifier = WebhookVerifier(secrets: [secret]),
        id: String? = id,
        timestamp: String? = String(seconds),
        signatures: String? = signature,
        body: [UInt8] = body,
        now: Int64 = seconds
    ) -> WebhookVerificationError? {
        do throws(WebhookVerificationError) {
            try verifier.verify(id: id, timestamp: timestamp, signatures: signatures, body: body, now: now)
            return nil
        } catch {
            return error
        }
    }

    @Test func `signs as the reference libraries do`() throws {
        let headers = try WebhookSigner(secrets: [Self.secret]).headers(
            id: Self.id,
            timestamp: Self.seconds,
            body: Self.body
        )
        #expect(headers.map(\.name) == ["webhook-id", "webhook-timestamp", "webhook-signature"])
        #expect(headers.map(\.value) == [Self.id, "1614265330", Self.signature])
    }

    @Test func `verifies signatures of the reference libraries, by secret and by key`() {
        #expect(verify() == nil)
        let byKey = WebhookVerifier(secrets: [], keys: [Self.key.publicKey])
        #expect(verify(byKey, signatures: Self.keySignature) == nil)
        #expect(verify(byKey) == .wrongSignature)
        #expect(verify(signatures: Self.keySignature) == .wrongSignature)
    }

    @Test func `one valid signature among others is enough`() {
        let wrong = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
        #expect(verify(signatures: "\(wrong) v2,Ceo5 \(Self.signature) \(wrong)") == nil)
        #expect(verify(signatures: wrong) == .wrongSignature)
        #expect(verify(signatures: "v2,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=") == .unknownScheme)
    }

    @Test func `during a rotation both secrets are valid, and both sign`() throws {
        let new = WebhookSecret()
        let signer = WebhookSigner(secrets: [new, Self.secret], key: Self.key)
        let headers = try signer.headers(id: Self.id, timestamp: Self.seconds, body: Self.body)
        let signatures = headers[2].value
        #expect(signatures.split(separator: " ").count == 3)
        #expect(verify(WebhookVerifier(secrets: [new]), signatures: signatures) == nil)
        #expect(verify(WebhookVerifier(secrets: [Self.secret]), signatures: signatures) == nil)
        #expect(verify(WebhookVerifier(secrets: [WebhookSecret(), new]), signatures: signatures) == nil)
        #expect(verify(WebhookVerifier(secrets: [WebhookSecret()]), signatures: signatures) == .wrongSignature)
        let byKey = WebhookVerifier(secrets: [], keys: [WebhookSigningKey().publicKey, Self.key.publicKey])
        #expect(verify(byKey, signatures: signatures) == nil)
    }

    @Test func `accepts only the signed content`() {
        #expect(verify(id: Self.id + "x") == .wrongSignature)
        #expect(verify(timestamp: "1614265331", now: 1_614_265_331) == .wrongSignature)
        #expect(verify(body: Self.body + [0x20]) == .wrongSignature)
        #expect(verify(body: []) == .wrongSignature)
        // padding may be omitted
        for end in 0..<Self.signature.count - 1 {
            #expect(verify(signatures: String(Self.signature.prefix(end))) != nil, "\(end) characters of it")
        }
    }

    @Test func `names missing and malformed headers`() {
        #expect(verify(id: nil) == .missing("webhook-id"))
        #expect(verify(id: "") == .missing("webhook-id"))
        #expect(verify(timestamp: nil) == .missing("webhook-timestamp"))
        #expect(verify(signatures: nil) == .missing("webhook-signature"))
        #expect(verify(id: "a.b") == .malformedID)
        #expect(verify(id: String(repeating: "a", count: 257)) == .malformedID)
        for text in ["hello", "-1", "+1614265330", "01614265330", " 1614265330", "1614265330.0", "9999999999999"] {
            #expect(verify(timestamp: text) == .malformedTimestamp, "\(text)")
        }
        #expect(verify(signatures: " ") == .unknownScheme)
        let many = Array(repeating: "v2,x", count: 16).joined(separator: " ") + " " + Self.signature
        #expect(verify(signatures: many) == .tooManySignatures)
        #expect(verify(signatures: String(repeating: "v", count: 4_097)) == .tooManySignatures)
    }

    @Test func `accepts a message up to the receiver's tolerance, and no older`() {
        #expect(verify(now: Self.seconds + 300) == nil)
        #expect(verify(now: Self.seconds + 301) == .tooOld(seconds: 301))
        #expect(verify(now: Self.seconds - 300) == nil)
        #expect(verify(now: Self.seconds - 301) == .tooNew(seconds: 301))
        let strict = WebhookVerifier(secrets: [Self.secret], tolerance: 0)
        #expect(verify(strict) == nil)
        #expect(verify(strict, now: Self.seconds + 1) == .tooOld(seconds: 1))
        #expect(verify(body: [], now: 0) == .wrongSignature, "the age of an unsigned message is not reported")
    }

    @Test func `parses secrets and keys with and without prefixes, and reveals them only on request`() {
        #expect(WebhookSecret("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") == Self.secret)
        #expect(Self.secret.text == "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        #expect("\(Self.secret)" == "whsec_…")
        #expect("\(Self.key)" == "whsk_…")
        #expect(WebhookSecret(WebhookSecret().text) != nil)
        #expect(WebhookPublicKey(Self.key.publicKey.text) != nil)
        #expect(WebhookSigningKey(Self.key.text)?.publicKey.text == Self.key.publicKey.text)
        let short = "whsec_" + String(repeating: "A", count: 28)
        for text in ["", "whsec_", "whsec_!!!!", short, "whsec_" + String(repeating: "A", count: 100), "whsk_AAAA"] {
            #expect(WebhookSecret(text) == nil, "\(text)")
        }
        for text in ["", "whsk_", "whsk_AAAA", "whsk_\(String(repeating: "A", count: 86))=="] {
            #expect(WebhookSigningKey(text) == nil, "\(text)")
        }
        #expect(WebhookPublicKey("whpk_AAAA") == nil)
    }
}
