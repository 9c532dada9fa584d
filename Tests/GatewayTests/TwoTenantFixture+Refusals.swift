import Foundation
import NIOHTTP1
import SyncModel
import Testing

extension TwoTenantFixture {
    /// Expects that rejected `requests` leave no trace in any table and no memory in use, and that the next valid push
    /// succeeds.
    func whileNothingChanges(
        sourceLocation: SourceLocation = #_sourceLocation,
        _ requests: () async throws -> Void
    ) async throws {
        let before = try await tables()
        try await requests()
        #expect(try await tables() == before, sourceLocation: sourceLocation)
        #expect(try await metrics().contains("sluice_http_held_body_bytes 0"), sourceLocation: sourceLocation)
        try await expectServed(sourceLocation: sourceLocation)
    }

    /// Expects that a valid push succeeds.
    func expectServed(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let reply = try await ada.push([ada.create()])
        #expect(reply.status == 200, "\(reply.text)", sourceLocation: sourceLocation)
        #expect(reply.statuses == ["succeeded"], sourceLocation: sourceLocation)
    }
}
