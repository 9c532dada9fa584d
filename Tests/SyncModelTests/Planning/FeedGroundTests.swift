import Foundation
import JSONText
import SyncModel
import Testing

/// The feed adopts from an upstream's answer only statements about the mutation's entity.
@Suite struct FeedGroundTests {
    private static let key = EntityKey(type: "contact", id: "7")
    private static let colleague = Writer(user: UUID(), device: UUID())

    /// Contact 7 as the feed has it.
    private static func stored(
        by writer: Writer,
        owner: UUID? = nil,
        version: Int64 = 3,
        document: String? = #"{"id":7,"n":"theirs"}"#,
        etag: String? = "e3"
    ) -> EntityTable {
        var state = EntityState(
            isIntegerID: true,
            version: version,
            isDeleted: document == nil,
            document: document.map { Array($0.utf8) },
            owner: owner ?? writer.user,
            clientID: nil,
            lastWriter: writer,
            runBase: version - 1
        )
        state.isStored = true
        state.etag = etag
        var table = EntityTable()
        table.load(key, state)
        return table
    }

    private struct Effect: Equatable {
        /// The version in the answer to the client.
        var version: Int64?
        /// Contact 7 in the feed afterwards: version and document, `-` for a tombstone; nil if it is absent.
        var feed: String?
        var etag: String?
    }

    private func effect(
        _ sample: Sample,
        _ table: EntityTable,
        _ status: Int,
        _ json: String? = nil,
        etag: String? = nil,
        location: String? = nil
    ) throws -> (Effect, Outcome) {
        let dispatch = try #require(sample.dispatch)
        var outcome = try #require(sample.outcome(status, json, location: location, etag: etag))
        var table = table
        let version = outcome.enterFeed(of: dispatch, &table)
        let state = table[Self.key]
        let document = state?.document.map { String(decoding: $0, as: UTF8.self) } ?? "-"
        return (Effect(version: version, feed: state.map { "\($0.version) \(document)" }, etag: state?.etag), outcome)
    }

    private func shared(_ operation: SyncModel.Operation, endpoint: String? = nil) -> Sample {
        var sample = Sample.of(operation)
        sample.visibility = .organization
        if let endpoint { sample.endpoint = endpoint }
        return sample
    }

    private static let theirs = #"3 {"id":7,"n":"theirs"}"#

    // MARK: - Order of answers

    /// Another user's lane wrote after this request, and its answer arrived first.
    @Test(arguments: [
        ("e3", #"5 {"id":7,"n":"theirs","name":"Kari"}"#), ("e4", #"5 {"id":7,"n":"theirs","name":"Kari"}"#),
        ("e5", #"4 {"id":7,"n":"theirs"}"#), (nil, #"5 {"id":7,"n":"theirs","name":"Kari"}"#), ("gone", "4 -"),
    ])
    func `a late answer does not undo a newer write`(_ etag: String?, _ expected: String) throws {
        for document in [nil, #"{"id":7,"n":"theirs","name":"Kari"}"#] {
            var sample = shared(.update, endpoint: "/contacts/7")
            sample.baseVersion = 3
            sample.entity = Self.stored(by: Self.colleague)[Self.key]
            #expect(sample.request?.ifMatch == "e3")
            let table = Self.stored(
                by: Self.colleague,
                version: 4,
                document: etag == "gone" ? nil : #"{"id":7,"n":"theirs"}"#,
                etag: etag == "gone" ? nil : etag
            )
            let (late, outcome) = try effect(sample, table, 200, document, etag: "e4")
            #expect(outcome.status == .succeeded && late.feed == expected)
            #expect(late.version == (expected.hasPrefix("4") ? 4 : 5))
            // if a request had no precondition, it is unknown when it took effect
            sample.baseVersion = nil
            let unconditional = try effect(sample, table, 200, document, etag: "e4").0
            #expect(etag == "gone" || unconditional.version == 5)
        }
    }

    // MARK: - Which answers refer to the entity

    @Test(arguments: [
        ("/contacts/{local_id}", true), ("/contacts/7", true), ("/contacts/7/phone?x=1", true), ("/a/%37", true),
        ("/contacts/77", false), ("/contacts/7a", false), ("/contacts?id=7", false), ("/contacts", false),
        ("/contacts/(7)", false), ("/x/7;v=1", false),
    ])
    func `a request refers to the entity in its path`(_ endpoint: String, _ isNamed: Bool) throws {
        let table = Self.stored(by: Self.colleague)
        for answer in [nil, "{}", #"{"id":8,"n":"x"}"#] {
            let (patched, outcome) = try effect(shared(.update, endpoint: endpoint), table, 200, answer, etag: "e4")
            #expect(outcome.status == .succeeded)
            #expect(outcome.etag == (isNamed ? "e4" : nil))
            #expect(patched.feed == (isNamed ? #"4 {"id":7,"n":"theirs","name":"Kari"}"# : Self.theirs))
            #expect(patched.version == (isNamed ? 4 : nil) && patched.etag == (isNamed ? "e4" : "e3"))
            let (replaced, _) = try effect(shared(.replace, endpoint: endpoint), table, 200, answer)
            #expect(replaced.feed == (isNamed ? #"4 {"name":"Kari"}"# : Self.theirs))
            let (deleted, _) = try effect(shared(.delete, endpoint: endpoint), table, 200, answer)
            #expect(deleted.feed == (isNamed ? "4 -" : Self.theirs))
            #expect(deleted.version == (isNamed ? 4 : nil))
        }
        // a document that contains the id identifies its entity; the ETag belongs to the requested resource
        let (shown, outcome) = try effect(
            shared(.update, endpoint: endpoint),
            table,
            200,
            #"{"id":7,"n":"new"}"#,
            etag: "e4"
        )
        #expect(shown.feed == #"4 {"id":7,"n":"new"}"# && outcome.etag == (isNamed ? "e4" : nil))
        #expect(shown.etag == (isNamed ? "e4" : nil))
    }

    @Test func `a UUID in a path is equal in upper and lower case`() throws {
        let id = UUID()
        var sample = Sample.of(.update)
        sample.serverID = ServerID(id)
        sample.endpoint = "/contacts/\(id.uuidString)"
        #expect(sample.outcome(204)?.patch == #"{"name":"Kari"}"#)
        sample.endpoint = "/contacts/\(UUID().uuidString)"
        #expect(sample.outcome(204)?.patch == nil)
    }

    @Test func `a request sent with client_wins refers to the entity in its own path`() throws {
        var sample = shared(.update, endpoint: "/contacts")
        sample.resolution = .clientWins
        sample.override = SentRequest(method: "PUT", payload: Array(#"{"id":7,"n":"mine"}"#.utf8))
        let table = Self.stored(by: Self.colleague)
        #expect(try effect(sample, table, 204).0.feed == Self.theirs)
        sample.override?.endpoint = "/contacts/7"
        #expect(try effect(sample, table, 204).0.feed == #"4 {"id":7,"n":"mine"}"#)
    }

    // MARK: - Missing entities

    @Test(arguments: [404, 410]) func `a missing entity becomes a tombstone if the caller wrote it last`(_ status: Int)
        throws
    {
        let delete = shared(.delete)
        let (theirs, outcome) = try effect(delete, Self.stored(by: Self.colleague), status)
        #expect(outcome.status == .succeeded && theirs == Effect(version: nil, feed: Self.theirs, etag: "e3"))
        let (mine, _) = try effect(delete, Self.stored(by: Sample.writer, owner: UUID()), status)
        #expect(mine == Effect(version: 4, feed: "4 -"))
        let tablet = Writer(user: Sample.lane.user, device: UUID())
        #expect(try effect(delete, Self.stored(by: tablet), status).0.feed == "4 -")
        // the mutation's result is the earlier deletion
        let (gone, _) = try effect(delete, Self.stored(by: Self.colleague, document: nil), status)
        #expect(gone == Effect(version: 3, feed: "3 -", etag: "e3"))
        // an unknown entity gets no tombstone
        #expect(try effect(delete, EntityTable(), status).0 == Effect())
        #expect(try effect(shared(.delete, endpoint: "/x"), Self.stored(by: Sample.writer), status).0.version == nil)
        // a private entity belongs to its creator, even if another user wrote it last
        var hers = delete
        hers.visibility = .user
        let adopted = Self.stored(by: Self.colleague, owner: Sample.lane.user)
        #expect(try effect(hers, adopted, status).0.feed == "4 -")
    }

    // MARK: - Creates

    @Test func `a create does not change another user's entity that it names`() throws {
        var create = Sample()
        create.visibility = .organization
        let forged = #"{"id":7,"n":"forged"}"#
        for (json, location) in [(forged, nil), (nil, "/contacts/7")] as [(String?, String?)] {
            let (theirs, outcome) = try effect(create, Self.stored(by: Self.colleague), 201, json, location: location)
            #expect(outcome.status == .succeeded && outcome.serverID?.text == "7")
            #expect(theirs == Effect(version: 3, feed: Self.theirs, etag: "e3"))
        }
        // an entity that the caller wrote last may be created again, and the id of a deleted entity may be reused
        #expect(try effect(create, Self.stored(by: Sample.writer), 201, forged).0.feed == "4 " + forged)
        let gone = Self.stored(by: Self.colleague, document: nil)
        #expect(try effect(create, gone, 201, forged).0.feed == "4 " + forged)
        let (new, _) = try effect(create, EntityTable(), 201, forged, etag: "e1")
        #expect(new == Effect(version: 1, feed: "1 " + forged, etag: "e1"))
        // a create that loses the conflict does not change the entity either
        create.strategy = .serverWins
        let (adopted, outcome) = try effect(
            create,
            Self.stored(by: Self.colleague),
            409,
            forged,
            location: "/contacts/7"
        )
        #expect(outcome.status == .discarded && adopted == Effect(version: 3, feed: Self.theirs, etag: "e3"))
        #expect(outcome.current == #"{"id":7,"n":"theirs"}"#)
    }

    // MARK: - Adoption

    @Test func `an adopted document has no writer and does not overwrite later writes`() throws {
        var sample = shared(.update)
        sample.strategy = .serverWins
        sample.entity = EntityState.known(
            etag: "e3",
            owner: Self.colleague.user,
            lastWriter: Self.colleague,
            version: 3,
            runBase: 2
        )
        let answer = #"{"id":7,"n":"newer"}"#
        let (adopted, outcome) = try effect(sample, Self.stored(by: Self.colleague), 412, answer, etag: "e9")
        #expect(outcome.status == .discarded)
        #expect(adopted == Effect(version: 4, feed: "4 " + answer, etag: "e9"))
        #expect(outcome.currentVersion == 4 && outcome.current == answer)
        // another user wrote while the request was in flight
        let (late, reported) = try effect(sample, Self.stored(by: Self.colleague, version: 5), 412, answer)
        #expect(late == Effect(version: 5, feed: #"5 {"id":7,"n":"theirs"}"#, etag: "e3"))
        #expect(reported.currentVersion == 5 && reported.current == #"{"id":7,"n":"theirs"}"#)
        // a document that the feed already has is no new version
        let same = try effect(sample, Self.stored(by: Self.colleague), 412, #"{"id":7,"n":"theirs"}"#)
        #expect(same.0.version == 3)
        // an edit made before the document was seen conflicts with it
        var table = Self.stored(by: Self.colleague)
        var outcomeOfFirst = try #require(sample.outcome(412, answer))
        _ = outcomeOfFirst.enterFeed(of: try #require(sample.dispatch), &table)
        let state = try #require(table[Self.key])
        var second = sample
        second.baseVersion = 3
        second.entity = EntityState.known(
            etag: state.etag,
            owner: state.owner,
            lastWriter: state.lastWriter,
            version: state.version,
            runBase: state.runBase
        )
        guard case .conflict = second.decision() else {
            Issue.record("the edit overwrites a version that its writer has not seen")
            return
        }
    }

    @Test func `a conflict without a document shows the feed's document`() throws {
        var sample = shared(.update)
        sample.strategy = .serverWins
        let (effect, outcome) = try effect(sample, Self.stored(by: Self.colleague), 409, nil)
        #expect(effect == Effect(version: 3, feed: Self.theirs, etag: "e3"))
        #expect(outcome.current == #"{"id":7,"n":"theirs"}"# && outcome.currentVersion == 3)
        #expect(outcome.code == "conflict")
    }

    // MARK: - Private entities

    /// The part of an outcome that the client receives, as text.
    private func reported(_ effect: Effect, _ outcome: Outcome) -> String {
        let error = outcome.error.map { String(decoding: $0, as: UTF8.self) } ?? "-"
        let version = effect.version.map(String.init) ?? "-"
        return "\(outcome.status) \(version) \(outcome.etag ?? "-") \(outcome.resolution?.rawValue ?? "-") \(error)"
    }

    @Test func `another user's private entity is answered like an ID that never existed`() throws {
        let answers: [(Int, String?)] = [
            (200, nil), (200, #"{"id":7,"n":"x"}"#), (204, nil), (404, nil), (410, nil), (409, nil),
            (409, #"{"id":7,"n":"x"}"#), (412, #"{"id":7}"#), (403, "{}"),
        ]
        for operation in SyncModel.Operation.allCases {
            for strategy in ConflictResolution.allCases {
                for (status, json) in answers {
                    for tombstone in [false, true] {
                        let sample = Sample.of(operation, strategy)
                        let document = tombstone ? nil : #"{"id":7,"n":"theirs"}"#
                        let hidden = Self.stored(by: Self.colleague, document: document)
                        let place = operation == .create && status == 409 ? "/contacts/7" : nil
                        let (theirs, first) = try effect(sample, hidden, status, json, etag: "e", location: place)
                        let (never, second) = try effect(
                            sample,
                            EntityTable(),
                            status,
                            json,
                            etag: "e",
                            location: place
                        )
                        #expect(
                            reported(theirs, first) == reported(never, second),
                            "\(operation) \(strategy) \(status)"
                        )
                        #expect(theirs.feed == (tombstone ? "3 -" : Self.theirs), "\(operation) \(strategy) \(status)")
                        // only a create makes a user the owner of a private entity
                        #expect(never.feed == nil || operation == .create, "\(operation) \(strategy) \(status)")
                    }
                }
            }
        }
    }
}

extension Outcome {
    fileprivate var currentVersion: Int64? {
        error.flatMap { try? JSONTree(parsing: $0).root["current"]?["version"]?.int64 }
    }
}
