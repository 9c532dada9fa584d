import JSONText
import StandardWebhooks
import SyncHTTP
import SyncModel
import SyncStore

/// The body of `POST …/webhooks` and of `PATCH …/webhooks/{webhook}`.
struct WebhookRequest {
    private(set) var update = WebhookUpdate()
    /// Of a new endpoint only.
    private(set) var secret: WebhookSecret?

    private static let what = "a webhook: url, description, events, status"

    /// - Parameter isNew: whether it describes a new endpoint: then `url` is required, and `secret` may be given.
    /// - Throws: `invalid_json`, `invalid_request`; `validation_failed` with pointers. No detail repeats a secret.
    init(body: [UInt8], isNew: Bool, policy: AddressPolicy) throws(Problem) {
        var request = Self()
        try RequestReport.read(body, of: Self.what + (isNew ? ", secret" : "")) { report, member, value in
            switch member {
            case "url": request.update.url = report.webhookURL(value, policy)
            case "description":
                let text = value.string.flatMap {
                    $0.unicodeScalars.count <= 200 && !$0.unicodeScalars.contains("\0") ? $0 : nil
                }
                request.update.description = report.value(
                    text,
                    at: "/description",
                    "description must be a string of at most 200 characters, without U+0000"
                )
            case "events": request.update.events = report.webhookEvents(value)
            case "status":
                let status = value.string.flatMap { ["enabled": true, "disabled": false][$0] }
                request.update.isEnabled = report.value(status, at: "/status", "status must be enabled or disabled")
            case "secret" where isNew: request.secret = report.webhookSecret(value)
            default: return false
            }
            return true
        }
        if isNew, request.update.url == nil {
            throw Problem(.validationFailed, pointer: "/url", rule: Rule.required, "url is required")
        }
        self = request
    }

    private init() {}
}

extension RequestReport {
    fileprivate mutating func webhookURL(_ value: JSONValue, _ policy: AddressPolicy) -> String? {
        guard let text = value.string else {
            refuse("/url", Rule.memberType, "url must be a string")
            return nil
        }
        do throws(BaseURL.Malformed) {
            let url = try WebhookURL(text)
            guard let problem = url.problem(policy) else { return url.text }
            refuse("/url", Rule.range, "url " + problem)
        } catch {
            refuse("/url", Rule.range, "url " + error.reason)
        }
        return nil
    }

    fileprivate mutating func webhookEvents(_ value: JSONValue) -> [WebhookEvent]? {
        let known = WebhookEvent.subscribable.map(\.rawValue).joined(separator: ", ")
        guard let elements = value.elements else {
            refuse("/events", Rule.memberType, "events must be an array, of \(known)")
            return nil
        }
        var events: [WebhookEvent] = []
        var count = 0
        for element in elements {
            defer { count += 1 }
            // an array may be long, and one report lists all of its defects
            guard count < 100 else { break }
            let event = element.string.flatMap(WebhookEvent.init(rawValue:))
            guard let event, WebhookEvent.subscribable.contains(event) else {
                refuse("/events/\(count)", Rule.range, "an event must be one of \(known)")
                continue
            }
            if !events.contains(event) { events.append(event) }
        }
        if events.isEmpty, problems.isEmpty {
            refuse("/events", Rule.range, "events must contain at least one of \(known)")
        }
        return events
    }
}
