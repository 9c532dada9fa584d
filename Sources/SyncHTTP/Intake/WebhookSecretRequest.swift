import JSONText
package import StandardWebhooks
package import SyncModel

/// The body of a request for a new secret of a webhook endpoint or a webhook receiver (Standard Webhooks).
package struct WebhookSecretRequest: Sendable {
    /// The default number of seconds for which the previous secret also signs.
    package static let defaultOverlap = 86_400

    package private(set) var secret: WebhookSecret?
    package private(set) var overlap = Self.defaultOverlap

    private static let table = MemberTable<Self, Never>("a new secret") {
        BodyMember("secret", .webhookSecret, into: \.secret)
        BodyMember("overlap_seconds", .overlap, into: \.overlap)
    }

    package init(body: [UInt8]) throws(Problem) {
        self = try Self.table.read(body, into: Self(), isOptional: true)
    }

    private init() {}
}

extension MemberKind<Int> {
    /// The seconds for which the previous secret is also valid.
    package static var overlap: Self { integer(0...604_800) }
}

extension MemberKind<WebhookSecret> {
    package static var webhookSecret: Self {
        let sizes = WebhookSecret.sizes
        let form = "must be whsec_ and the base64 of \(sizes.lowerBound) to \(sizes.upperBound) bytes"
        return Self(form) { $0.string.flatMap(WebhookSecret.init) }
    }
}
