package import JSONText
package import StandardWebhooks
package import SyncModel

/// The body of a request for a new secret, of an endpoint or a receiver (Standard Webhooks).
package struct WebhookSecretRequest {
    /// How long the secret before signs, too, in seconds.
    package static let usualOverlap = 86_400
    package static let overlaps = 0...604_800

    package private(set) var secret: WebhookSecret?
    package private(set) var overlap = Self.usualOverlap

    package init(body: [UInt8]) throws(Problem) {
        if body.isEmpty { return }
        var request = Self()
        try RequestReport.read(body, of: "a new secret: secret, overlap_seconds") { report, member, value in
            switch member {
            case "secret": request.secret = report.webhookSecret(value)
            case "overlap_seconds":
                if let overlap = report.overlap(value) { request.overlap = overlap }
            default: return false
            }
            return true
        }
        self = request
    }

    private init() {}
}

extension RequestReport {
    /// How long the secret before is good, too.
    package mutating func overlap(_ value: JSONValue) -> Int? {
        let range = WebhookSecretRequest.overlaps
        let number = value.int64.flatMap { Int(exactly: $0) }.flatMap { range.contains($0) ? $0 : nil }
        let detail = "overlap_seconds must be an integer, \(range.lowerBound) to \(range.upperBound)"
        return self.value(number, at: "/overlap_seconds", detail)
    }

    package mutating func webhookSecret(_ value: JSONValue) -> WebhookSecret? {
        let sizes = WebhookSecret.sizes
        let detail = "secret must be whsec_ and the base64 of \(sizes.lowerBound) to \(sizes.upperBound) bytes"
        return self.value(value.string.flatMap(WebhookSecret.init), at: "/secret", detail)
    }
}
