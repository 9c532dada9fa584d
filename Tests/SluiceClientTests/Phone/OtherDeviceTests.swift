import Foundation
import GRDB
import SluiceTesting
import Testing

@testable import SluiceClient

/// Writes of the user's other device that need a decision, and the queue that they stop.
@Suite struct OtherDeviceTests {
    /// A user's phone whose conflict precedes everything that another phone of the user pushes.
    private static func lostPhone() async throws -> (phone: MockPhone, left: UUID) {
        let phone = try MockPhone()
        var kari = Contact(name: "Kari", phone: "1")
        try await phone.insert(kari)
        await phone.sync()
        let entity = try #require(phone.gateway.entities(of: "contact").first)
        phone.gateway.put("contact", id: entity.id, ["name": "Kari", "phone": "3"])
        kari.phone = "2"
        let left = try #require(try await phone.client.update(kari))
        #expect(await phone.sync().conflicts == 1)
        return (phone, left)
    }

    @Test(arguments: [true, false])
    func `another device lists and settles a conflict that a lost device left`(_ resolves: Bool) async throws {
        let (lost, left) = try await Self.lostPhone()
        let phone = try MockPhone(lost.gateway)
        try await phone.insert(Contact(name: "Ola"))
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
        #expect(try await phone.contacts().map(\.phone) == ["3", nil])
    }

    @Test func `the queue is no longer shown as stopped after another phone has settled the conflict`() async throws {
        let (other, left) = try await Self.lostPhone()
        let phone = try MockPhone(other.gateway) { $0.pullInterval = .milliseconds(100) }
        let write = try #require(try await phone.insert(Contact(name: "Ola")))
        await phone.client.syncOnce()
        #expect(phone.client.currentStatus.blockedBy != nil)
        try await other.client.resolve(left, .server)
        await other.sync()
        // the outcome arrives in an event, so that nothing is left to push
        try await phone.pool.write { [map = phone.client.map] db in
            let json: JSON = ["id": .string(write.wire), "status": "succeeded", "server_id": .string(UUID().wire)]
            if let result = MutationResult(json) { try PushAnswer(map, db, now: Date()).apply(result) }
        }
        await phone.client.worker.requestPull()
        _ = await phone.client.worker.turn()
        #expect(phone.client.currentStatus.blockedBy == nil)
        #expect(phone.gateway.requests.contains { $0.path == "/v1/backlog" })
    }

    @Test(arguments: [true, false])
    func `a new client with nothing to push shows that a conflict stops the queue`(_ isOwn: Bool) async throws {
        let (phone, left) = try await Self.lostPhone()
        let next = try MockPhone(phone.gateway, file: isOwn ? phone.file : nil)
        for _ in 1...2 {
            let status = await next.sync()
            #expect(status.blockedBy == .queue(reason: "conflict", mutations: [left]))
            #expect(status.phase == .blocked && status.conflicts == 1 && status.pending == 0, "\(status)")
        }
        try await next.client.discard(left)
        let status = await next.sync()
        #expect(status.isComplete && status.blockedBy == nil, "\(status)")
    }

    @Test func `a client shows that another device's conflict has stopped the queue since`() async throws {
        let phone = try MockPhone()
        let other = try MockPhone(phone.gateway)
        var kari = Contact(name: "Kari", phone: "1")
        try await phone.insert(kari)
        #expect(await phone.sync().isComplete)
        #expect(await other.sync().isComplete)
        let entity = try #require(phone.gateway.entities(of: "contact").first)
        phone.gateway.put("contact", id: entity.id, ["name": "Kari", "phone": "3"])
        kari.phone = "2"
        let edit = try #require(try await phone.client.update(kari))
        #expect(await phone.sync().conflicts == 1)
        let status = await other.sync()
        #expect(status.blockedBy == .queue(reason: "conflict", mutations: [edit]), "\(status)")
        #expect(status.phase == .blocked && !status.isComplete)
    }

    @Test func `a refused decision about another device's write shows the reason`() async throws {
        let (lost, left) = try await Self.lostPhone()
        let phone = try MockPhone(lost.gateway)
        try await phone.insert(Contact(name: "Ola"))
        await phone.client.syncOnce()
        phone.gateway.fail(.problem(status: 422, code: "validation_failed"), on: .decision)
        try await phone.client.discard(left)
        await phone.client.syncOnce()
        let write = try #require(try await phone.pool.read { try FailedWrite.fetchAll($0) }.first)
        #expect(write.decisionError?.contains("validation_failed") == true)
    }
}
