import Foundation
import SyncModel
import Testing

@testable import SyncHTTP

@Suite("The body of a look-up")
struct MappingLookupTests {
    private let id = "7E57ED00-0000-4000-8000-000000000001"

    private func lookup(_ text: String) throws(Problem) -> MappingLookup {
        try MappingLookup(body: Array(text.utf8), limit: 1_048_576)
    }

    @Test
    func `reads ids in either case`() throws {
        let lookup = try lookup("{\"client_ids\":[\"\(id)\",\"\(id.lowercased())\"],\"entity_type\":\"task\"}")
        #expect(lookup.clientIDs.count == 2)
        #expect(Set(lookup.clientIDs).count == 1)
        #expect(lookup.entityType == "task")
    }

    @Test
    func `accepts a look-up without ids`() throws {
        #expect(try lookup("{\"client_ids\":[]}").count == 0)
    }

    @Test
    func `reads ids of the device id space as numbers`() throws {
        let lookup = try lookup(
            "{\"client_ids\":[81,\"\(id)\",-7],\"entity_type\":\"task\",\"device_id\":\"\(id)\"}"
        )
        #expect(lookup.numbers == [81, -7])
        #expect(lookup.clientIDs.count == 1)
        #expect(lookup.deviceID == lookup.clientIDs.first)
    }

    @Test
    func `the entity type is optional`() throws {
        #expect(try lookup("{\"client_ids\":[\"\(id)\"]}").entityType == nil)
        #expect(try lookup("{\"client_ids\":[\"\(id)\"],\"entity_type\":null}").entityType == nil)
    }

    @Test(arguments: [
        ("[]", "", "member_type"),
        ("{}", "/client_ids", "member_required"),
        ("{\"client_ids\":null}", "/client_ids", "member_type"),
        ("{\"client_ids\":[\"ID\",true]}", "/client_ids/1", "client_id_uuid_format"),
        ("{\"client_ids\":[\"ID\",1.5]}", "/client_ids/1", "client_id_uuid_format"),
        ("{\"client_ids\":[7],\"entity_type\":\"task\"}", "/device_id", "member_required"),
        ("{\"client_ids\":[7],\"device_id\":\"ID\"}", "/entity_type", "member_required"),
        ("{\"client_ids\":[7],\"device_id\":7,\"entity_type\":\"task\"}", "/device_id", "uuid_format"),
        ("{\"client_ids\":[\"ID\"],\"entity_type\":\"No\"}", "/entity_type", "entity_type_valid_enum"),
        ("{\"client_ids\":[\"ID\"],\"what/ever\":1}", "/what~1ever", "member_unknown"),
        ("{\"client_ids\":[\"ID\"],\"client_ids\":[\"ID\"]}", "/client_ids", "member_duplicate"),
    ]
    )
    func `points to the invalid member`(text: String, pointer: String, rule: String) throws {
        let body = text.replacingOccurrences(of: "ID", with: id)
        let problem = try #require(throws: Problem.self) { try lookup(body) }
        #expect(problem.code == .invalidRequest)
        #expect(problem.errors.map(\.pointer) == [pointer])
        #expect(problem.errors.map(\.rule) == [rule])
    }

    @Test
    func `accepts at most a thousand ids`() throws {
        let ids = Array(repeating: "\"\(id)\"", count: 1_000).joined(separator: ",")
        #expect(try lookup("{\"client_ids\":[\(ids)]}").clientIDs.count == 1_000)
        #expect(throws: Problem.self) { try lookup("{\"client_ids\":[\(ids),\"\(id)\"]}") }
    }

    @Test(arguments: ["", " ", "{", "nonsense"])
    func `reports invalid JSON`(text: String) throws {
        let problem = try #require(throws: Problem.self) { try lookup(text) }
        #expect(problem.code == .invalidJSON)
    }
}
