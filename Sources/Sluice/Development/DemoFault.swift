import CommandSupport
import FoundationEssentials
import JSONText
import SyncHTTP
import SyncModel
import SyncUpstream

/// Creates mutations of a second user that did not succeed, as examples for the console. The mutations are replayed to
/// the demo's REST API.
///
/// The mutations are a conflict, an edit that waits for the conflict, and a failure. All ids are fixed, because the API
/// and its organization are created again at each start.
struct DemoFault: Sendable {
    static let tenant = DemoTenant(
        name: DemoTenant.forwarded.name,
        organization: DemoTenant.forwarded.organization,
        user: DemoTenant.id(0xde_40, 0x03)
    )

    let gateway: ListenAddress
    /// The address of the API.
    let upstream: ListenAddress
    let token: String

    /// Creates the examples: a push with a failure, a colleague's edit at the API, and a push of edits that are based
    /// on the state before the colleague's edit.
    ///
    /// If a request is rejected, the method prints a message, and the demo continues without the examples.
    func make() async {
        let client = HTTPUpstream(now: SystemClock.now, logger: .ofCommands())
        let isMade = await make(by: client)
        await client.shutdown()
        if !isMade { Terminal.printError("the demo has no failure and no conflict: a request was rejected") }
    }

    private func make(by client: HTTPUpstream) async -> Bool {
        guard let results = await send("POST", "/v1/mutations", Self.expenses, to: gateway, by: client),
            let taxi = results["results"]?.elements?.first(where: { _ in true })?["server_id"]?.int64,
            await send("PATCH", "/expenses/\(taxi)", #"{"amount": 395}"#, to: upstream, by: client) != nil
        else { return false }
        // An event is parked if it arrives while a mutation of its entity is being replayed. For this reason, the edits
        // below are pushed after the colleague's edit is in the feed.
        guard await isInFeed(amount: 395, by: client) else { return false }
        return await send("POST", "/v1/mutations", Self.edits, to: gateway, by: client) != nil
    }

    /// Waits until the gateway's feed has an expense of this amount; returns false if the feed has no such expense
    /// after half a minute.
    private func isInFeed(amount: Int64, by client: HTTPUpstream) async -> Bool {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end, !Task.isCancelled {
            guard let page = await send("GET", "/v1/changes", "", to: gateway, by: client) else { return false }
            let documents = page["changes"]?.elements?.compactMap { $0["document"] } ?? []
            if documents.contains(where: { $0["amount"]?.int64 == amount }) { return true }
            try? await Task.sleep(for: .milliseconds(100))
        }
        return false
    }

    /// Returns the response to a request; nil if the request is refused, or if there is no response.
    private func send(
        _ method: String,
        _ path: String,
        _ body: String,
        to address: ListenAddress,
        by client: HTTPUpstream
    ) async -> JSONValue? {
        let request = UpstreamRequest(
            organization: Self.tenant.organization,
            user: Self.tenant.user,
            method: method,
            path: path,
            headers: address == gateway ? ["prefer": "wait=10"] : ["x-demo-colleague": "true"],
            body: Array(body.utf8),
            idempotencyKey: UUID(),
            timeout: .seconds(30)
        )
        // the token is only for the gateway, so it is not sent to the API
        let credential = address == gateway ? UpstreamCredential.bearer(token) : nil
        let settings = UpstreamSettings(baseURL: "http://\(address)", credential: credential)
        guard case .response(let response) = await client.send(request, to: settings), response.status < 300,
            let json = response.json
        else { return nil }
        return try? JSONTree(parsing: json).root
    }

    private static let expenses = push([
        draft(1, "create", taxi, "/expenses", #"{"text": "Taxi", "amount": 380}"#),
        draft(2, "create", hotel, "/expenses", #"{"text": "Hotel", "amount": 1490}"#),
        draft(3, "update", hotel, "/expenses/4711", #"{"amount": 1290}"#),
    ])

    private static let edits = push([
        draft(4, "update", taxi, "/expenses/{local_id}", #"{"amount": 420}"#, #"{"if-match": "\"1\""}"#),
        draft(5, "update", taxi, "/expenses/{local_id}", #"{"text": "Taxi to the airport"}"#),
    ])

    private static func push(_ drafts: [String]) -> String {
        """
        {"device_id": "\(DemoTenant.id(0xde_71, 0x21).lowercased)", "mutations": [\(drafts.joined(separator: ","))]}
        """
    }

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
