import JSONText
import Testing

@testable import SyncModel

@Suite struct OrderKeyFingerprintTests {
    private static func digest(_ more: String) throws -> [UInt8] {
        let body = #"""
            {"device_id":"0192f0c1-0000-7000-8000-0000000000d1","mutations":[
             {"id":"0192f0c1-0000-7000-8000-000000000001","idempotency_key":"0192f0c1-0000-7000-8000-000000000002",
              "sequence_number":1,"operation":"create","entity_type":"contact","created_at":"2026-11-20T07:00:00.000Z",
              "local_id":"0192f0c1-0000-7000-8000-000000000003","payload":{"a":1}\#(more)}]}
            """#
        let push = try PushRequest(body: Array(body.utf8), limits: IntakeLimits())
        return try #require(push.entries[0].mutation, "\(String(describing: push.entries[0].refusal))").fingerprint
            .digest
    }

    @Test func `mutations that differ only in the order key have different fingerprints`() throws {
        let forms = [
            "", #","order_key":"1""#, #","order_key":"a""#, #","order_key":"A""#, #","base_version":1"#,
            #","base_version":1,"order_key":"1""#, #","base_version":11"#,
        ]
        let digests = try forms.map(Self.digest)
        #expect(Set(digests).count == forms.count)
        #expect(try Self.digest(#","order_key":null"#) == digests[0])
    }
}
