import Foundation
import JSONText
import SyncModel
import Testing

/// Lines of entity files.
@Suite struct EntityLineTests {
    private func event(_ line: String) throws -> IngestEvent { try EntityLine.decode(Array(line.utf8)).event.get() }

    private func problem(_ line: String) throws -> Problem {
        guard case .failure(let problem) = EntityLine.decode(Array(line.utf8)).event else {
            throw Problem(.internalError, "the line is taken: \(line)")
        }
        return problem
    }

    @Test func `a line contains an entity's current state`() throws {
        let document = #"{"n":1.10,"big":123456789012345678901}"#
        let upsert = try event(#"{"entity_type":"contact","id":4711,"document":\#(document)}"#)
        #expect(upsert.operation == .upsert && upsert.entityID == ServerID(4711) && upsert.mark == SourceMark())
        #expect(upsert.document == Array(document.utf8))
        #expect(!upsert.isPrivate)
        let deletion = try event(
            #"{"entity_type":"contact","id":"a","deleted":true,"document":null,"occurred_at":"2026-11-20T07:00:00Z"}"#
        )
        #expect(deletion.operation == .delete && deletion.document == nil && deletion.mark.occurredAt != nil)
        let kept = try event(#"{"entity_type":"contact","id":"a","deleted":false,"document":{},"version":3}"#)
        #expect(kept.operation == .upsert && kept.mark.version == 3)
        let exported = try event(#"{"entity_type":"diary","id":1,"private":true,"document":{},"cursor":"f1-1-1-1-0"}"#)
        #expect(exported.isPrivate)
    }

    @Test func `a line may be an event`() throws {
        let patch = try event(
            #"{"event_id":"e1","entity_type":"contact","id":1,"version":2,"operation":"patch","document":{"a":null}}"#
        )
        #expect(patch.id == "e1" && patch.operation == .patch)
        #expect(try event(#"{"entity_type":"contact","id":1,"operation":"delete"}"#).operation == .delete)
    }

    @Test func `lines with equal content have the same event id`() throws {
        let line = #"{"entity_type":"contact","id":1,"version":2,"document":{"a":1}}"#
        let same = #" {"document":{"a":1}, "version":2,"id":1,"entity_type":"contact","cursor":"f1-1-9-9-0"}"#
        #expect(try event(line).id == event(same).id)
        let others = [
            #"{"entity_type":"contacts","id":1,"version":2,"document":{"a":1}}"#,
            #"{"entity_type":"contact","id":"1","version":2,"document":{"a":1}}"#,
            #"{"entity_type":"contact","id":1,"version":3,"document":{"a":1}}"#,
            #"{"entity_type":"contact","id":1,"document":{"a":1}}"#,
            #"{"entity_type":"contact","id":1,"version":2,"document":{"a":1.0}}"#,
            #"{"entity_type":"contact","id":1,"version":2,"deleted":true}"#,
            #"{"entity_type":"contact","id":1,"version":2,"document":{"a":1},"operation":"patch"}"#,
            #"{"entity_type":"contact","id":1,"version":2,"document":{"a":1},"owner":"0192f0c1-2345-7abc-8def-0123456789ab"}"#,
            #"{"entity_type":"contact","id":1,"occurred_at":"2026-11-20T07:00:00Z","document":{"a":1}}"#,
        ]
        let ids = try Set(([line] + others).map { try event($0).id })
        #expect(ids.count == others.count + 1)
        #expect(ids.allSatisfy { $0.utf8.count <= IngestEvent.maximumIDBytes })
    }

    @Test(arguments: [
        (#"{"id":1,"document":{}}"#, "/entity_type"), (#"{"entity_type":"contact","document":{}}"#, "/id"),
        (#"{"entity_type":"Contact","id":1,"document":{}}"#, "/entity_type"),
        (#"{"entity_type":"contact","id":1}"#, "/document"),
        (#"{"entity_type":"contact","id":1,"document":[]}"#, "/document"),
        (#"{"entity_type":"contact","id":1.5,"document":{}}"#, "/id"),
        (#"{"entity_type":"contact","id":1,"document":{},"deleted":true}"#, "/document"),
        (#"{"entity_type":"contact","id":1,"document":{},"deleted":"no"}"#, "/deleted"),
        (#"{"entity_type":"contact","id":1,"deleted":true,"operation":"upsert","document":{}}"#, "/deleted"),
        (#"{"entity_type":"contact","id":1,"document":{},"private":1}"#, "/private"),
        (#"{"entity_type":"contact","id":1,"document":{},"occurred_at":"yesterday"}"#, "/occurred_at"),
        (#"{"entity_type":"contact","id":1,"document":{"a":1,"a":2}}"#, "/document/a"),
        (#"{"entity_type":"contact","id":1,"document":{"a":"\u0000"}}"#, "/document/a"),
        (#"{"entity_type":"contact","id":1,"document":{},"colour":"red"}"#, "/colour"), ("[]", ""),
    ])
    func `reports a defect with its pointer in the line`(line: String, pointer: String) throws {
        #expect(try problem(line).errors.map(\.pointer) == [pointer])
    }

    @Test func `refuses invalid JSON`() throws {
        #expect(try problem("nothing").code == .invalidJSON)
        #expect(try problem(#"{"entity_type":"contact","id":1"#).code == .invalidJSON)
    }

    @Test func `documents may be as large and as deep as stored ones`() throws {
        let text = String(repeating: "x", count: 1_048_576 - 20)
        let long = try event(#"{"entity_type":"contact","id":1,"document":{"a":"\#(text)"}}"#)
        #expect(long.document?.count == 1_048_576 - 12)
        let deep = String(repeating: "[", count: 400) + String(repeating: "]", count: 400)
        #expect(try event(#"{"entity_type":"contact","id":1,"document":{"a":\#(deep)}}"#).document != nil)
        let large = text + text
        #expect(try problem(#"{"entity_type":"contact","id":1,"document":{"a":"\#(large)"}}"#).code == .payloadTooLarge)
    }
}
