import Foundation
import GRDB
import Testing

@testable import SluiceClient

/// After a user's erasure at the gateway, the phone deletes its data as well.
@Suite struct ErasedUserTests {
    @Test func `a phone of an erased user deletes its data`() async throws {
        let gateway = try await TestGateway.start()
        let organization = try await gateway.makeOrganization()
        let phone = try await TestPhone(gateway, organization: organization)
        let other = try await TestPhone(gateway, organization: organization)
        for number in 0..<3 { try await phone.create(Contact(name: "Contact \(number)")) }
        try await other.create(Contact(name: "Other's"))
        await phone.sync()
        await other.sync()
        try await phone.create(Contact(name: "Never sent"))
        let erasing = Task { try await gateway.erase(phone.user, in: organization) }
        defer { erasing.cancel() }
        // from the moment at which the phone learns of the erasure
        var status = await phone.client.syncOnce(deadline: .seconds(60))
        while status.blockedBy == nil {
            try await phone.create(Contact(name: "Late"))
            status = await phone.client.syncOnce(deadline: .seconds(60))
        }
        guard case .erased(let problem) = status.blockedBy else {
            Issue.record("\(String(describing: status.blockedBy))")
            return
        }
        #expect(problem.code == "user_erased" && status.phase == .blocked && status.pending == 0)
        #expect(try await phone.contacts() == [])
        for table in LibraryTables.all {
            #expect(try await phone.pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM \(table)") } == 0)
        }
        // further writes of that user are rejected, and the reason stays
        await #expect(throws: SluiceError.signedOut) { try await phone.create(Contact(name: "Later")) }
        #expect(await phone.client.syncOnce(deadline: .seconds(5)).blockedBy == .erased(problem))
        #expect((await other.sync()).blockedBy == nil)
        // the next user, with a separate client
        let next = try await TestPhone(gateway, organization: organization, file: phone.file)
        #expect((await next.sync()).blockedBy == nil)
    }

    /// Intermediaries may answer 410 as well.
    @Test func `only the gateway's erasure problem empties a phone`() throws {
        func isErasure(_ status: Int, _ body: String) throws -> Bool {
            guard case .refused(let problem) = Reply.of(status: status, body: Array(body.utf8)) else { return false }
            return problem.isErasure
        }
        let ours = #"{"type":"urn:sluice:problem:user_erased","status":410,"code":"user_erased"}"#
        #expect(try isErasure(410, ours))
        #expect(try !isErasure(403, ours))
        #expect(try !isErasure(410, #"{"type":"about:blank","status":410,"code":"user_erased"}"#))
        #expect(try !isErasure(410, #"{"code":"user_erased"}"#))
        #expect(try !isErasure(410, #"{"type":"urn:sluice:problem:cursor_expired","code":"user_erased"}"#))
        #expect(try !isErasure(410, "gone"))
    }
}
