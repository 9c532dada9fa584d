import Foundation
import JSONText
import SyncHTTP
import SyncModel
import SyncUpstream

/// What a second user of the demo's REST API has trouble with from the start, so that the console has something to show: a
/// conflict, an edit that waits for it, and a failure. All ids are fixed; the API and its organization begin afresh with
/// each start.
struct DemoTrouble: Sendable {
    static let tenant = DemoTenant(
        name: DemoTenant.forwarded.name,
        organization: DemoTenant.forwarded.organization,
        user: DemoTenant.id(0xde_40, 0x03)
    )

    let gateway: ListenAddress
    let token: String

    /// Pushes it; what cannot be pushed is left out of the demo, and said.
    func push() async {
        let client = HTTPUpstream(now: SystemClock.now, logger: Wiring.commandLogger())
        let request = UpstreamRequest(
            organization: Self.tenant.organization,
            user: Self.tenant.user,
            method: "POST",
            path: "/v1/mutations",
            body: Array(Self.text.utf8),
            idempotencyKey: UUID(),
            timeout: .seconds(30)
        )
        let settings = UpstreamSettings(baseURL: "http://\(gateway)", credential: .bearer(token))
        let answer = await client.send(request, to: settings)
        await client.shutdown()
        if case .response(let response) = answer, response.status < 300 { return }
        Terminal.complain("the demo has no failure and no conflict to show: the push was not taken")
    }

    private static let text = """
        {
          "device_id": "\(DemoTenant.id(0xde_71, 0x21).lowercased)",
          "mutations": [
            \(draft(1, "create", taxi, "/expenses", #"{"text": "Taxi", "amount": 380}"#)),
            \(draft(2, "create", hotel, "/expenses", #"{"text": "Hotel", "amount": 1490}"#)),
            \(draft(3, "update", taxi, "/expenses/{local_id}", #"{"amount": 420}"#, #"{"if-match": "\\"7\\""}"#)),
            \(draft(4, "update", taxi, "/expenses/{local_id}", #"{"text": "Taxi to the airport"}"#)),
            \(draft(5, "update", hotel, "/expenses/4711", #"{"amount": 1290}"#))
          ]
        }
        """

    private static let taxi = DemoTenant.id(0xe0, 0x21).lowercased
    private static let hotel = DemoTenant.id(0xe0, 0x22).lowercased

    private static func draft(
        _ number: UInt8,
        _ operation: String,
        _ expense: String,
        _ endpoint: String,
        _ payload: String,
        _ headers: String = "{}"
    ) -> String {
        """
        {"id": "\(DemoTenant.id(0x1d, 0x20 + number).lowercased)",
             "idempotency_key": "\(DemoTenant.id(0xd0, 0x20 + number, version: 4).lowercased)",
             "sequence_number": \(number), "operation": "\(operation)", "entity_type": "expense",
             "local_id": "\(expense)", "endpoint": "\(endpoint)", "headers": \(headers),
             "payload": \(payload), "created_at": "2026-01-15T18:00:0\(number).000Z"}
        """
    }
}
