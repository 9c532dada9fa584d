import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// Writes that another device of the user left, and the queue that they stop.
@Suite struct OtherDeviceTests {
    /// A gateway at which another device has left a conflict, in front of everything that this phone pushes.
    private static func gateway(_ left: UUID, isSettled: Locked<Bool>) throws -> ScriptedGateway {
        let gateway = try ScriptedGateway()
        let hold: JSON = ["reason": "conflict", "until": .null, "mutation_ids": .array([.string(left.wire)])]
        let conflict: JSON = [
            "id": .string(left.wire), "status": "conflict", "device_id": .string(UUID().wire), "sequence_number": 7,
            "operation": "update", "entity_type": "contact", "local_id": .null, "server_id": .string(UUID().wire),
            "created_at": "2026-01-15T12:00:00.000Z", "payload": ["phone": "2"],
            "error": ["code": "conflict", "title": "conflict", "status": 409],
        ]
        gateway.reacts = { request in
            let isOver = isSettled.withLock { $0 }
            switch (request.method, request.path) {
            case ("POST", "/v1/mutations"):
                let entries = (try? JSON(parsing: request.body))?["mutations"]?.array ?? []
                let results = entries.map { entry -> JSON in
                    [
                        "id": entry["id"] ?? .null, "status": isOver ? "succeeded" : "blocked",
                        "server_id": isOver ? .string(UUID().wire) : .null,
                        "blocked_by": isOver ? [] : .array([.string(left.wire)]),
                    ]
                }
                let last = entries.compactMap { $0["sequence_number"]?.int64 }.max() ?? 0
                return ScriptedGateway.ok([
                    "results": .array(results), "accepted_sequence": .integer(last), "held_by": isOver ? .null : hold,
                ])
            case ("GET", "/v1/mutations"):
                return ScriptedGateway.ok(["mutations": isOver ? [] : .array([conflict]), "next": .null])
            case ("GET", "/v1/backlog"):
                return ScriptedGateway.ok(["devices": [], "lane": ["held_by": isOver ? .null : hold]])
            case ("POST", "/v1/mutations/\(left.wire)/resolve"), ("POST", "/v1/mutations/\(left.wire)/discard"):
                isSettled.withLock { $0 = true }
                return ScriptedGateway.ok(["id": .string(left.wire), "status": "discarded"])
            default: return nil
            }
        }
        return gateway
    }

    @Test(arguments: [true, false])
    func `a conflict that a lost device left is listed and settled here`(_ resolves: Bool) async throws {
        let (left, isSettled) = (UUID(), Locked(false))
        let phone = try ScriptedPhone(try Self.gateway(left, isSettled: isSettled))
        try await phone.insert()
        let blocked = await phone.client.syncOnce()
        #expect(blocked.blockedBy == .queue(reason: "conflict", mutations: [left]))
        #expect(blocked.lastError == nil, "\(blocked)")
        #expect(blocked.phase == .blocked && blocked.conflicts == 1 && blocked.pending == 1)
        let write = try #require(try await phone.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(write.id == left && write.deviceID != nil && write.payload == ["phone": "2"])
        if resolves {
            try await phone.client.resolve(left, .server)
        } else {
            try await phone.client.discard(left)
        }
        #expect(try await phone.pool.read { try FailedWrite.fetchAll($0) } == [])
        let status = await phone.client.syncOnce()
        #expect(status.blockedBy == nil && status.conflicts == 0 && status.pending == 0, "\(status)")
    }

    @Test func `the queue is no longer shown as stopped after another phone has settled the conflict`() async throws {
        let (left, isSettled) = (UUID(), Locked(false))
        let gateway = try Self.gateway(left, isSettled: isSettled)
        let phone = try ScriptedPhone(gateway) { $0.pullInterval = .milliseconds(100) }
        let write = try #require(try await phone.insert())
        await phone.client.syncOnce()
        #expect(phone.client.currentStatus.blockedBy != nil)
        // as an event reports it, so that nothing is left to push
        isSettled.withLock { $0 = true }
        try await phone.pool.write { [map = phone.client.map] db in
            let json: JSON = ["id": .string(write.wire), "status": "succeeded", "server_id": .string(UUID().wire)]
            if let result = MutationResult(json) { try PushAnswer(map, db, now: Date()).apply(result) }
        }
        await phone.client.worker.wantPull()
        _ = await phone.client.worker.turn()
        #expect(phone.client.currentStatus.blockedBy == nil)
        #expect(gateway.requests.contains { $0.path == "/v1/backlog" })
    }

    @Test func `a refused decision about another device's write shows the reason`() async throws {
        let (left, isSettled) = (UUID(), Locked(false))
        let gateway = try Self.gateway(left, isSettled: isSettled)
        let usual = gateway.reacts
        gateway.reacts = { request in
            request.path.hasSuffix("/discard") ? ScriptedGateway.problem(422, "validation_failed") : usual(request)
        }
        let phone = try ScriptedPhone(gateway)
        try await phone.insert()
        await phone.client.syncOnce()
        try await phone.client.discard(left)
        await phone.client.syncOnce()
        let write = try #require(try await phone.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(write.decisionError?.contains("validation_failed") == true)
    }
}
