import Foundation
import NIOHTTP1
import SyncModel
import Testing

extension Scene {
    /// Whatever is refused in `requests` leaves no trace in any table and holds no memory, and the next good push is
    /// served.
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

    /// A good push is served.
    func expectServed(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let reply = try await ada.push([ada.create()])
        #expect(reply.status == 200, "\(reply.text)", sourceLocation: sourceLocation)
        #expect(reply.statuses == ["succeeded"], sourceLocation: sourceLocation)
    }
}
