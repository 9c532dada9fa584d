import CommandSupport
import Foundation
import JSONText
import Logging
import SyncHTTP
import SyncModel
import SyncUpstream

/// Reports every change in the demo's REST API to a gateway, in order, as a backend's webhooks would.
final class DemoWebhook: Sendable {
    /// The destination of events.
    private struct Target: Sendable {
        let gateway: ListenAddress
        let token: ServiceToken
    }

    /// The maximum number of waiting events, equal to the maximum number of documents.
    private static let capacity = DemoCollections.capacity
    private static let pause: Duration = .milliseconds(500)

    private let events = AsyncStream.makeStream(of: DemoEvent.self, bufferingPolicy: .bufferingNewest(capacity))
    private let targets = AsyncStream.makeStream(of: Target.self, bufferingPolicy: .bufferingNewest(1))

    func record(_ event: DemoEvent) { events.continuation.yield(event) }

    /// Begins to report changes to a gateway.
    func notify(_ gateway: ListenAddress, token: ServiceToken) {
        targets.continuation.yield(Target(gateway: gateway, token: token))
    }

    /// Sends events until the task is cancelled.
    ///
    /// - Parameter report: receives a line about each event that reports another client's edit, or that is refused.
    func run(report: @Sendable (String) -> Void) async {
        guard let target = await targets.stream.first(where: { _ in true }) else { return }
        let client = HTTPUpstream(now: SystemClock.now, logger: .ofCommands())
        let settings = UpstreamSettings(
            baseURL: "http://\(target.gateway)",
            credential: .bearer(target.token.text)
        )
        for await event in events.stream {
            while !Task.isCancelled {
                guard let line = await send(event, by: client, to: settings, of: target.token.organization) else {
                    try? await Task.sleep(for: Self.pause)
                    continue
                }
                if !line.isEmpty { report(line) }
                break
            }
        }
        await client.shutdown()
    }

    /// - Returns: a text about the result; nil if the event must be sent again.
    private func send(
        _ event: DemoEvent,
        by client: HTTPUpstream,
        to settings: UpstreamSettings,
        of organization: UUID
    ) async -> String? {
        let request = UpstreamRequest(
            organization: organization,
            user: DemoTenant.forwarded.user,
            method: "POST",
            path: "/v1/ingest",
            body: event.batch(),
            idempotencyKey: UUID(),
            timeout: .seconds(10)
        )
        guard case .response(let response) = await client.send(request, to: settings), response.status < 500 else {
            return nil
        }
        return Self.line(event, status: response.status, body: response.json)
    }

    /// Returns the terminal's line about the gateway's response to an event; empty for the echo of a replay. If the
    /// gateway refused the event, the line has the reason.
    static func line(_ event: DemoEvent, status: Int, body: [UInt8]?) -> String {
        let root = body.flatMap { try? JSONTree(parsing: $0).root }
        let result = root?.value(at: "/results/0/result")?.string
        // the event of a replay is parked until the mutation's outcome is committed, and is then recognized as an echo
        let isParkedEcho = result == IngestResult.parked.rawValue && event.causingKey != nil
        guard result != IngestResult.echo.rawValue, !isParkedEcho else { return "" }
        let what = "\(event.entityType) \(event.id), version \(event.version)"
        let line = "upstream: notified the gateway of \(what) → \(result ?? "\(status)")"
        // an event's error, or the problem of the whole request
        let problem = root?.value(at: "/results/0/error") ?? root
        guard let detail = problem?.value(at: "/detail")?.string else { return line }
        let pointer = problem?.value(at: "/errors/0/pointer")?.string ?? ""
        return line + ": " + (pointer.isEmpty ? "" : TerminalText.of(pointer) + ": ") + TerminalText.of(detail)
    }
}

/// A change of a document in the demo's REST API, as the API reports it to a gateway.
struct DemoEvent: Sendable {
    /// The collection's path.
    let collection: Substring
    let id: Int
    let version: Int
    /// The owner of the document.
    let owner: UUID
    /// The whole document; nil if it was deleted.
    let document: [UInt8]?
    /// The `Idempotency-Key` of the request that changed the document.
    let causingKey: String?

    /// The entity type: `/contacts` contains entities of type `contact`, and `/activities` entities of type `activity`.
    var entityType: String {
        let name = collection.split(separator: "/").last.map(String.init) ?? ""
        if name.hasSuffix("ies") { return name.dropLast(3) + "y" }
        return name.hasSuffix("s") ? String(name.dropLast()) : name
    }

    /// Returns the body of a request to `/v1/ingest`.
    func batch() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("events")
        writer.beginArray()
        writer.beginObject()
        writer.member("event_id", "\(collection)/\(id):\(version)")
        writer.member("entity_type", entityType)
        writer.member("id", id)
        writer.member("version", version)
        writer.member("operation", (document == nil ? IngestOperation.delete : .upsert).rawValue)
        if let document { writer.member("document", raw: document) }
        writer.member("owner", owner)
        if let causingKey { writer.member("causing_key", causingKey) }
        writer.endObject()
        writer.endArray()
        writer.endObject()
        return writer.bytes
    }
}
