import Foundation
import JSONText
import SyncModel
import Testing

@Suite struct DispatchPlannerTests {
    private static let other = UUID(uuid: (9, 9, 9, 9, 9, 9, 0x49, 9, 0x89, 9, 9, 9, 9, 9, 9, 9))

    private static func mapping(_ id: UUID, _ type: String, _ serverID: ServerID) -> [UUID: [DispatchPlanner
        .ResolvedID]]
    {
        [id: [DispatchPlanner.ResolvedID(entityType: type, serverID: serverID)]]
    }

    private func reason(_ decision: DispatchPlanner.Decision) -> Outcome? {
        if case .fail(let outcome) = decision { outcome } else { nil }
    }

    private func hold(_ decision: DispatchPlanner.Decision) -> Timestamp? {
        if case .hold(let until) = decision { until } else { nil }
    }

    // MARK: - Ids

    @Test(arguments: [
        (ServerID(text: "12", isInteger: true), "12", "12"), (ServerID(text: "12", isInteger: false), "12", #""12""#),
        (ServerID(text: "a b/ü", isInteger: false), "a%20b%2F%C3%BC", #""a b/ü""#),
        (ServerID(Sample.id), Sample.id.uuidString.lowercased(), #""\#(Sample.id.uuidString.lowercased())""#),
    ])
    func `replaces ids in place, in their form`(_ id: ServerID, _ inPath: String, _ inJSON: String) throws {
        let text = Self.other.uuidString.lowercased()
        var sample = Sample.of(.update)
        sample.endpoint = "/companies/\(text)/contacts/{local_id}?of=\(text)"
        sample.payload = #"{"a":"\#(text)","b":["\#(text)",[{"c":"\#(text)"}]],"d":"x \#(text)","\#(text)":1}"#
        sample.references = [Self.other]
        sample.mappings = Self.mapping(Self.other, "company", id)
        let request = try #require(sample.request)
        #expect(request.path == "/companies/\(inPath)/contacts/7?of=\(inPath)")
        let body = try #require(request.body)
        #expect(
            String(decoding: body, as: UTF8.self)
                == #"{"a":\#(inJSON),"b":[\#(inJSON),[{"c":\#(inJSON)}]],"d":"x \#(text)","\#(text)":1}"#
        )
    }

    @Test func `the own ID comes from the mapping of its type`() throws {
        var sample = Sample.of(.update)
        sample.serverID = nil
        sample.payload = #"{"me":"\#(Sample.local.uuidString)"}"#
        sample.mappings = [
            Sample.local: [
                DispatchPlanner.ResolvedID(entityType: "a_first", serverID: ServerID(text: "1", isInteger: true)),
                DispatchPlanner.ResolvedID(entityType: "contact", serverID: ServerID(text: "2", isInteger: true)),
            ]
        ]
        let request = try #require(sample.request)
        #expect(request.path == "/contacts/2")
        #expect(request.body == Array(#"{"me":2}"#.utf8))
        sample.mappings = [:]
        let outcome = try #require(reason(sample.decision()))
        #expect(outcome.status == .failed && outcome.code == "dependency_rejected" && outcome.attemptCount == 0)
        #expect(outcome.lastError != nil)
    }

    /// The type was determined at the push; types that shared the client id later do not count.
    @Test(arguments: ["a_first", "company"])
    func `a reference resolves to its recorded type`(_ type: String) throws {
        let text = Self.other.uuidString.lowercased()
        var sample = Sample.of(.update)
        sample.endpoint = "/x/\(text)"
        sample.payload = #"{"a":"\#(text)"}"#
        sample.references = [Self.other]
        sample.mappings = [
            Self.other: [
                DispatchPlanner.ResolvedID(
                    entityType: "a_first",
                    serverID: ServerID(text: "a_first", isInteger: false)
                ),
                DispatchPlanner.ResolvedID(
                    entityType: "company",
                    serverID: ServerID(text: "company", isInteger: false)
                ),
            ]
        ]
        sample.referenceTypes = [Self.other: type]
        #expect(sample.request?.path == "/x/\(type)")
        #expect(sample.request?.body == Array(#"{"a":"\#(type)"}"#.utf8))
        // the ids of other types do not replace the client id
        sample.referenceTypes = [Self.other: "contact"]
        #expect(sample.request?.path == "/x/\(text)")
        // a mutation accepted before types were recorded stays unresolved
        sample.referenceTypes = [:]
        let outcome = try #require(reason(sample.decision()))
        #expect(outcome.status == .failed && outcome.code == "reference_ambiguous")
    }

    @Test func `ids that are no references of the mutation stay unchanged`() throws {
        var sample = Sample()
        let text = Self.other.uuidString.lowercased()
        sample.endpoint = "/x/\(text)"
        sample.payload = #"{"a":"\#(text)"}"#
        sample.mappings = Self.mapping(Self.other, "company", ServerID(text: "1", isInteger: true))
        let request = try #require(sample.request)
        #expect(request.path == "/x/\(text)")
        #expect(request.body == Array(#"{"a":"\#(text)"}"#.utf8))
    }

    @Test func `a create keeps its client ID because it has no other`() throws {
        var sample = Sample()
        let text = Sample.local.uuidString.lowercased()
        sample.endpoint = "/contacts/{local_id}"
        sample.payload = #"{"id":"\#(text)"}"#
        let request = try #require(sample.request)
        #expect(request.line == "POST /contacts/\(text)")
        #expect(request.body == Array(#"{"id":"\#(text)"}"#.utf8))
    }

    @Test(arguments: ["..", ".", "../../admin", "a/../b", "..\\x", "%2e%2e", "%252e.", "..;x", "..?x", "a%2f..%2fb"])
    func `refuses an ID that would change the structure of the path`(_ text: String) throws {
        var sample = Sample.of(.update)
        sample.serverID = ServerID(text: text, isInteger: false)
        let outcome = try #require(reason(sample.decision()))
        #expect(outcome.status == .failed && outcome.code == "validation_failed" && outcome.attemptCount == 0)
    }

    @Test(arguments: ["a/b", "a\\b", "a%2fb", "100%", ";", "a;..", "\u{e6}", "a b"])
    func `sends any other ID unchanged, and accepts its path from a worker that inserted it`(_ text: String) throws {
        var sample = Sample.of(.update)
        sample.serverID = ServerID(text: text, isInteger: false)
        let path = try #require(sample.request?.path)
        #expect(try Endpoint(path).text == path)
    }

    @Test func `a body that server ids make too large is refused before it is made`() throws {
        var sample = Sample()
        sample.references = [Self.other]
        let id = ServerID(text: String(repeating: #"""#, count: 200), isInteger: false)
        sample.mappings = Self.mapping(Self.other, "company", id)
        sample.payload = "[" + Array(repeating: #""\#(Self.other)""#, count: 10).joined(separator: ",") + "]"
        func decision(_ limit: Int) -> DispatchPlanner.Decision {
            DispatchPlanner(leaseSeconds: 120, bodyLimit: limit)
                .decide(sample.mutation, sample.surroundings, now: Sample.now, heldUntil: nil)
        }
        // ten ids of 402 bytes, with brackets and commas
        #expect(reason(decision(4_031)) == nil)
        let refused = try #require(reason(decision(4_030)))
        #expect(refused.status == .failed && refused.code == "validation_failed" && refused.attemptCount == 0)
        // a large payload without ids to replace is sent
        sample.references = []
        #expect(reason(decision(10)) == nil)
    }

    @Test func `a refusal after an attempt of unknown outcome stays unknown`() throws {
        var sample = Sample.of(.update)
        sample.serverID = ServerID(text: "..", isInteger: false)
        (sample.isOutcomeUnknown, sample.attempts) = (true, 2)
        let outcome = try #require(reason(sample.decision()))
        #expect(outcome.isOutcomeUnknown && outcome.attemptCount == 2)
    }

    @Test func `refuses two ids that form a dot segment together`() throws {
        var sample = Sample.of(.update)
        sample.endpoint = "/{local_id}{local_id}"
        sample.serverID = ServerID(text: ".", isInteger: false)
        #expect(reason(sample.decision()) != nil)
        sample.serverID = ServerID(text: "...", isInteger: false)
        #expect(sample.request?.path == "/......")
    }

    // MARK: - If-Match

    @Test func `sends no validator of another user's private entity`() {
        for operation in [SyncModel.Operation.update, .replace, .delete] {
            var sample = Sample.of(operation)
            sample.baseVersion = 5
            for (owner, visibility, expected) in [
                (Sample.lane.user, Visibility.user, "e5"), (Self.other, .user, nil), (Self.other, .organization, "e5"),
            ] {
                sample.visibility = visibility
                sample.entity = EntityState.known(
                    etag: "e5",
                    owner: owner,
                    lastWriter: Writer(user: owner, device: Self.other),
                    version: 5,
                    runBase: 3
                )
                #expect(sample.request?.ifMatch == expected)
            }
        }
    }

    @Test func `within a writer's run, If-Match is the ETag of the last answer`() {
        let stranger = Writer(user: Sample.lane.user, device: Self.other)
        let ours = EntityState.known(
            etag: "e5",
            owner: Sample.lane.user,
            lastWriter: Sample.writer,
            version: 5,
            runBase: 3
        )
        let theirs = EntityState.known(
            etag: "e5",
            owner: Sample.lane.user,
            lastWriter: stranger,
            version: 5,
            runBase: 3
        )
        let bare = EntityState.known(
            etag: nil,
            owner: Sample.lane.user,
            lastWriter: Sample.writer,
            version: 5,
            runBase: 3
        )
        let header = #"{"If-Match":"e1","X-A":"b"}"#
        let cases: [(EntityState?, Int64?, String?, String?)] = [
            (ours, 5, nil, "e5"), (ours, 3, nil, "e5"), (ours, 3, header, "e5"),
            (ours, nil, nil, nil), (ours, nil, header, "e5"), (theirs, 5, nil, "e5"), (theirs, 5, header, "e5"),
            (theirs, nil, header, nil), (bare, 5, header, nil), (nil, 5, header, nil),
        ]
        for (entity, base, headers, expected) in cases {
            for operation in [SyncModel.Operation.update, .replace, .delete] {
                var sample = Sample.of(operation)
                sample.entity = entity
                sample.baseVersion = base
                sample.headers = headers
                #expect(
                    sample.request?.ifMatch == expected,
                    "\(String(describing: entity)) \(String(describing: base))"
                )
                #expect(sample.request?.headers["if-match"] == (headers == nil ? nil : "e1"))
                #expect(sample.request?.isUnconditional == false)
            }
        }
        var create = Sample()
        create.entity = ours
        create.baseVersion = 5
        #expect(create.request?.ifMatch == nil)
    }

    @Test func `a client_wins resolution is sent without a condition`() throws {
        var sample = Sample.of(.update)
        sample.entity = EntityState.known(
            etag: "e5",
            owner: Sample.lane.user,
            lastWriter: Sample.writer,
            version: 5,
            runBase: 3
        )
        sample.baseVersion = 5
        sample.override = SentRequest(method: "PUT", endpoint: "/contacts/8", payload: Array("{}".utf8))
        let request = try #require(sample.request)
        #expect(request.line == "PUT /contacts/8" && request.body == Array("{}".utf8))
        #expect(request.ifMatch == nil && request.isUnconditional)
    }

    // MARK: - The upstream's key

    @Test func `the key is stable over attempts and differs for different mutations`() throws {
        let first = Sample()
        let key = try #require(first.request?.idempotencyKey)
        var again = first
        again.attempts = 3
        again.isOutcomeUnknown = true
        #expect(again.request?.idempotencyKey == key)
        var others: Set<UUID> = [key]
        for revision in 2...50 {
            var other = first
            other.revision = Int32(revision)
            others.insert(try #require(other.request?.idempotencyKey))
        }
        var organization = first
        organization.lane = LaneKey(organization: Self.other, user: first.lane.user)
        var user = first
        user.lane = LaneKey(organization: first.lane.organization, user: Self.other)
        for other in [organization, user] { others.insert(try #require(other.request?.idempotencyKey)) }
        #expect(others.count == 52)
        #expect(key.uuid.6 >> 4 == 8 && key.uuid.8 >> 6 == 2)
    }

    // MARK: - Times

    @Test func `a head waits for its time`() throws {
        let later = Sample.now.adding(seconds: 9)
        var sample = Sample()
        sample.nextRetryAt = later
        #expect(hold(sample.decision()) == later)
        sample.isForwarded = false
        #expect(hold(sample.decision()) == later)
        sample = Sample()
        sample.nextRetryAt = Sample.now
        #expect(sample.request != nil)
        #expect(hold(sample.decision(heldUntil: later)) == later)
        // the time may pass between the permit and the decision; only the next permit allows the request
        let past = Sample.now.adding(seconds: -1)
        #expect(hold(sample.decision(heldUntil: past)) == Sample.now)
        sample.upstream = nil
        #expect(try #require(hold(sample.decision())) > Sample.now)
    }

    @Test func `the built-in store waits for no upstream`() throws {
        var sample = Sample()
        sample.isForwarded = false
        sample.upstream = nil
        sample.endpoint = nil
        guard case .run(let dispatch) = sample.decision(heldUntil: Sample.now.adding(seconds: 9)),
            case .builtIn(let payload) = dispatch.destination
        else {
            Issue.record("not run")
            return
        }
        #expect(payload == Array(#"{"name":"Kari"}"#.utf8))
    }

    @Test func `a mutation without an endpoint fails once its type is forwarded`() throws {
        var sample = Sample()
        sample.endpoint = nil
        let outcome = try #require(reason(sample.decision()))
        #expect(outcome.status == .failed && outcome.code == "validation_failed")
        let detail = "its type 'contact' is forwarded, but the mutation has no endpoint, and the type has no route"
        #expect(outcome.detail == detail)
        #expect(outcome.lastError == outcome.detail && outcome.attemptCount == 0)
    }

    @Test(arguments: [(30, 120.0, 30.0), (90, 120, 90), (90, 60, 50), (90, 12, 9), (90, 5, 3.75)])
    func `a request times out well before its lease ends`(_ timeout: Int, _ lease: Double, _ expected: Double) throws {
        var sample = Sample()
        sample.upstream?.timeoutSeconds = timeout
        guard case .run(let dispatch) = sample.decision(leaseSeconds: lease),
            case .upstream(let request, _) = dispatch.destination
        else {
            Issue.record("not run")
            return
        }
        #expect(request.timeout == .seconds(expected))
    }
}

extension UpstreamRequest {
    fileprivate var line: String { "\(method) \(path)" }
}
