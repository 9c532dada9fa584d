import Foundation
import GRDB

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// Receives the gateway's events while the app is in the foreground. It stores outcomes of writes, and starts pulls of
/// new changes.
///
/// Correctness never depends on events, because the worker also polls for outcomes and changes.
struct EventListener: Sendable {
    private let map: EntityMap
    private let gateway: GatewayClient
    private let worker: SyncWorker
    private let bell: WakeSignal
    private let configuration: SluiceClient.Configuration

    init?(_ client: SluiceClient) {
        guard client.configuration.usesEvents else { return nil }
        map = client.map
        gateway = client.gateway
        worker = client.worker
        bell = client.bell
        configuration = client.configuration
    }

    func run() async {
        var failures = 0
        while !Task.isCancelled {
            let wasOpen = await listen()
            failures = wasOpen ? 0 : failures + 1
            let pause = wasOpen ? 2.0 : BackOff.seconds(failures: failures + 1)
            try? await Task.sleep(for: .seconds(pause))
        }
    }

    /// - Returns: whether a stream was opened.
    private func listen() async -> Bool {
        guard let token = try? await gateway.tokens.token(), (try? await gateway.check(token)) != nil,
            let request = try? request(token)
        else { return false }
        var isOpen = false
        for await event in EventStream.events(request, configuration.session) {
            isOpen = true
            await take(event)
        }
        return isOpen
    }

    private func request(_ token: String) throws -> URLRequest {
        var request = try GatewayRequest(path: "/v1/events").urlRequest(to: gateway.url, token: token, timeout: 60)
        request.setValue("text/event-stream", forHTTPHeaderField: "Accept")
        return request
    }

    private func take(_ event: EventParser.Event) async {
        switch event.name {
        case "open":
            // pulls changes that occurred before the stream began
            await worker.endBackOff()
            bell.ring()
        case "changes":
            await worker.requestPull()
            bell.ring()
        case "mutation":
            guard let json = try? JSON(parsing: event.data), let result = MutationResult(json) else { return }
            try? await note(json) { try $0.apply(result) }
            await noteOther(json, result)
        case "id_mapping":
            guard let json = try? JSON(parsing: event.data) else { return }
            try? await note(json) { try $0.note(json) }
        default: break
        }
    }

    /// Wakes the worker if a write of another device has failed or is in conflict, because a person may have to decide
    /// about this write. While the user's queue is stopped, wakes the worker for every result, because the result may
    /// release the queue.
    private func noteOther(_ json: JSON, _ result: MutationResult) async {
        let isOther = json["device_id"].map { $0 != .string(worker.device.wire) } ?? false
        guard isOther && [.failed, .conflict].contains(result.status) || worker.status.status.isQueueHeld else {
            return
        }
        await worker.requestOthersCheck()
        bell.ring()
    }

    private func note(_ json: JSON, _ body: @escaping @Sendable (PushAnswer) throws -> Void) async throws {
        guard json["device_id"].map({ $0 == .string(worker.device.wire) }) ?? true else { return }
        try await worker.write { [map] db, now in try body(PushAnswer(map, db, now: now)) }
    }
}
