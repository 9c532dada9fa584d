import Foundation
import JSONText
import SyncModel
import Testing

@Suite struct OutcomePlannerTests {
    // MARK: - The table of product rules 7, 11 and 12

    /// One row of the table: the known state, and the answer.
    struct Case: CustomStringConvertible {
        let status: Int
        let operation: SyncModel.Operation
        let strategy: ConflictResolution
        let wasUnknown: Bool
        let hasRetryAfter: Bool
        let isLastAttempt: Bool

        var description: String {
            "\(status) to \(operation.rawValue), \(strategy.rawValue)"
                + (wasUnknown ? ", unknown before" : "") + (hasRetryAfter ? ", Retry-After" : "")
                + (isLastAttempt ? ", last attempt" : "")
        }

        static let all: [Case] = statuses.flatMap { status in
            SyncModel.Operation.allCases.flatMap { operation in
                ConflictResolution.allCases.flatMap { strategy in
                    (0..<8).map { bits in
                        Case(
                            status: status,
                            operation: operation,
                            strategy: strategy,
                            wasUnknown: bits & 1 != 0,
                            hasRetryAfter: bits & 2 != 0,
                            isLastAttempt: bits & 4 != 0
                        )
                    }
                }
            }
        }

        private static let statuses =
            [200, 201, 202, 204, 299, 300, 301, 302, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409]
            + [410, 411, 412, 413, 414, 415, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499, 500, 501]
            + [502, 503, 504, 505, 507, 511, 520, 599]
    }

    /// The promise for a case, in the terms of the rules.
    enum Promise: Equatable {
        case done, unnamed, refused, operatorsTrouble, again, outOfAttempts, forAPerson, serversWay, clientsWay
    }

    private static func promise(_ a: Case) -> Promise {
        let retried: Promise = a.isLastAttempt ? .outOfAttempts : .again
        switch a.status {
        case 202 where a.operation == .create: return .unnamed
        case 200..<300: return .done
        case 300..<400, 401, 407: return .operatorsTrouble
        case 408, 425, 429: return retried
        case 500...: return retried
        case 404, 410: return a.operation == .delete ? .done : .refused
        case 409 where a.hasRetryAfter || a.wasUnknown: return retried
        case 409, 412:
            switch a.strategy {
            case .manual: return .forAPerson
            case .serverWins: return .serversWay
            case .clientWins: return .clientsWay
            }
        default: return .refused
        }
    }

    @Test(arguments: SyncModel.Operation.allCases) func `interprets answers as documented`(
        _ operation: SyncModel.Operation
    )
        throws
    {
        for a in Case.all where a.operation == operation {
            var sample = Sample.of(operation, a.strategy)
            sample.isOutcomeUnknown = a.wasUnknown
            sample.attempts = a.isLastAttempt ? 4 : 1
            let isCreatesConflict = operation == .create && [409, 412].contains(a.status)
            let outcome = try #require(
                sample.outcome(
                    a.status,
                    #"{"id":7,"name":"Ola"}"#,
                    retryAfter: a.hasRetryAfter ? 600 : nil,
                    location: isCreatesConflict ? "/contacts/7" : nil
                )
            )
            try check(outcome, a, sample)
        }
    }

    private func check(_ outcome: Outcome, _ a: Case, _ sample: Sample) throws {
        let sent = sample.attempts + 1
        if outcome.status != .succeeded { #expect(outcome.lastError != nil, "\(a)") }
        if ![.succeeded, .pending].contains(outcome.status) { #expect(outcome.error != nil, "\(a)") }
        #expect(outcome.revision == (Self.promise(a) == .clientsWay ? 2 : 1), "\(a)")
        switch Self.promise(a) {
        case .done:
            #expect(outcome.status == .succeeded && outcome.attemptCount == sent, "\(a)")
            #expect(outcome.serverID?.text == "7" && !outcome.isOutcomeUnknown, "\(a)")
            #expect(outcome.responseStatus == Int16(a.status), "\(a)")
        case .unnamed:
            #expect(outcome.status == .failed && outcome.code == "upstream_answer_unusable", "\(a)")
            #expect(outcome.responseStatus == 202 && outcome.serverID == nil, "\(a)")
        case .refused:
            #expect(outcome.status == .failed && outcome.code == "upstream_rejected", "\(a)")
            #expect(outcome.attemptCount == sent && !outcome.isOutcomeUnknown, "\(a)")
            #expect(outcome.lastErrorCode == Int16(a.status) && outcome.responseStatus == Int16(a.status), "\(a)")
        case .operatorsTrouble:
            #expect(outcome.status == .pending && outcome.kind == .misconfigured, "\(a)")
            #expect(outcome.attemptCount == sample.attempts && outcome.pause == (a.hasRetryAfter ? 600 : 4), "\(a)")
            #expect(outcome.hold == AuthBackoff(count: 1, since: Sample.now) && !outcome.isFailedTry, "\(a)")
            #expect(outcome.isOutcomeUnknown == a.wasUnknown, "\(a)")
        case .again:
            #expect(outcome.status == .pending && outcome.attemptCount == sent, "\(a)")
            #expect(outcome.pause == (a.hasRetryAfter ? 600 : 8), "\(a)")
            // only definitive outcomes are stored as final
            #expect(outcome.responseStatus == nil && outcome.error == nil, "\(a)")
            #expect(outcome.isOutcomeUnknown == (a.status >= 500 || a.wasUnknown), "\(a)")
            #expect(outcome.conflictRetries == (a.status == 409 ? 1 : 0), "\(a)")
        case .outOfAttempts:
            #expect(outcome.status == .failed && outcome.code == "max_attempts_reached", "\(a)")
            #expect(outcome.nextRetryAt == nil && outcome.responseStatus == nil, "\(a)")
            #expect(outcome.isOutcomeUnknown == (a.status >= 500 || a.wasUnknown), "\(a)")
            #expect(outcome.detail?.contains("Ola") == false, "\(a)")
        case .forAPerson:
            #expect(outcome.status == .conflict && outcome.code == "conflict", "\(a)")
            #expect(outcome.resolution == nil && outcome.current == #"{"id":7,"name":"Ola"}"#, "\(a)")
        case .serversWay:
            #expect(outcome.status == .discarded && outcome.resolution == .serverWins, "\(a)")
            #expect(outcome.satisfiesDependants && outcome.serverID?.text == "7", "\(a)")
            #expect(outcome.document == #"{"id":7,"name":"Ola"}"# && outcome.feedETag == nil, "\(a)")
        case .clientsWay:
            #expect(outcome.status == .pending && outcome.resolution == .clientWins, "\(a)")
            #expect(outcome.attemptCount == 0 && outcome.nextRetryAt == nil, "\(a)")
            let request = try #require(sample.after(outcome).request, "\(a)")
            #expect(request.isUnconditional && request.ifMatch == nil, "\(a)")
            #expect(request.idempotencyKey != sample.request?.idempotencyKey, "\(a)")
        }
    }

    // MARK: - The operator's problem, or the mutation's own

    @Test func `retries without limit if the operator may have to fix the cause`() throws {
        var sample = Sample(attempts: 4)
        var pauses: [Double] = []
        for count in 1...10 {
            let outcome = try #require(sample.outcome(401))
            #expect(outcome.status == .pending && outcome.attemptCount == 4 && outcome.hold?.count == Int16(count))
            pauses.append(try #require(outcome.pause))
            sample = sample.after(outcome)
        }
        #expect(pauses == [4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
        sample.hold?.count = .max
        #expect(sample.outcome(401)?.hold?.count == .max)
    }

    @Test func `an error that other mutations do not get is attributed to the mutation`() throws {
        let held = Sample(attempts: 1, hold: AuthBackoff(count: 2, since: Sample.now))
        for wasUnknown in [false, true] {
            var sample = held
            sample.isOutcomeUnknown = wasUnknown
            let outcome = try #require(
                sample.outcome(301, location: "https://me:secret@host/contacts/?token=secret#f", othersSucceeded: true)
            )
            #expect(outcome.status == .failed && outcome.kind == .rejected && outcome.code == "upstream_rejected")
            #expect(outcome.attemptCount == 2 && outcome.hold == nil && outcome.nextRetryAt == nil)
            #expect(outcome.responseStatus == 301 && outcome.lastErrorCode == 301)
            // an answer that may come from an intermediary is no evidence about an earlier attempt
            #expect(outcome.isOutcomeUnknown == wasUnknown)
            #expect(outcome.detail?.hasPrefix("the upstream answered 301 (Location: https://host/contacts/),") == true)
            #expect(outcome.lastError == "the upstream answered 301 (Location: https://host/contacts/)")
        }
        // other answers are not affected
        #expect(held.outcome(503, othersSucceeded: true)?.status == .pending)
        #expect(held.outcome(201, #"{"id":1}"#, othersSucceeded: true)?.status == .succeeded)
    }

    @Test(
        arguments: [
            (301, "/contacts/", nil, " (Location: /contacts/)"), (308, "//host/x?y=1", nil, " (Location: //host/x)"),
            (302, nil, "Bearer", ""), (302, "?token=secret", nil, ""), (302, "/å", nil, ""), (302, "/a b", nil, ""),
            (302, "http://a@b@c/d@e", nil, " (Location: http://c/d@e)"),
            (
                302, "/" + String(repeating: "x", count: 300), nil,
                " (Location: /" + String(repeating: "x", count: 199) + "…)"
            ),
            (401, "/contacts", "Bearer", " (it asks for Bearer)"), (407, nil, "Basic", " (it asks for Basic)"),
            (401, nil, nil, ""), (404, "/elsewhere", "Bearer", ""),
        ] as [(Int, String?, String?, String)]
    )
    func `names a redirect's location and a challenge's scheme`(
        _ status: Int,
        _ location: String?,
        _ challenge: String?,
        _ words: String
    ) throws {
        var response = UpstreamResponse(status: status, location: location)
        response.challenge = challenge
        let outcome = try #require(Sample().outcome(.response(response)))
        #expect(outcome.lastError == "the upstream answered \(status)" + words)
    }

    @Test func `a hold stays until the upstream gives another answer`() throws {
        let hold = AuthBackoff(count: 2, since: Sample.now)
        let sample = Sample.of(.update, .clientWins)
        var held = sample
        held.hold = hold
        #expect(held.outcome(.notSent("x"))?.hold == hold && held.outcome(.unknown("x"))?.hold == hold)
        #expect(OutcomePlanner(policy: RetryPolicy()).abandoned(try #require(held.dispatch)).hold == hold)
        #expect(Outcome(ofLost: held.mutation, wasSent: true).hold == hold)
        #expect(Outcome(ofUnsent: try #require(held.dispatch)).hold == hold)
        for status in [200, 404, 409, 429, 503] { #expect(held.outcome(status)?.hold == nil, "\(status)") }
    }

    // MARK: - No answer

    @Test func `a request that was not sent had no effect`() throws {
        let outcome = try #require(Sample().outcome(.notSent("connection refused")))
        #expect(outcome.status == .pending && outcome.kind == .unreachable && !outcome.isOutcomeUnknown)
        #expect(outcome.attemptCount == 1 && outcome.pause == 4)
        #expect(outcome.lastError == "the upstream could not be reached: connection refused")
        #expect(try #require(Sample(isOutcomeUnknown: true).outcome(.notSent("x"))).isOutcomeUnknown)
    }

    @Test func `a request without an answer may have taken effect`() throws {
        let outcome = try #require(Sample().outcome(.unknown("timed out")))
        #expect(outcome.status == .pending && outcome.kind == .unreachable && outcome.isOutcomeUnknown)
        let last = try #require(Sample(attempts: 4).outcome(.unknown("timed out")))
        #expect(last.status == .failed && last.code == "max_attempts_reached" && last.isOutcomeUnknown)
        #expect(last.lastError != nil)
    }

    @Test func `an abandoned request is retried unless it was the last attempt`() throws {
        let planner = OutcomePlanner(policy: RetryPolicy())
        let first = planner.abandoned(try #require(Sample().dispatch))
        #expect(first.status == .pending && first.isOutcomeUnknown && first.attemptCount == 1)
        #expect(first.nextRetryAt == nil && first.lastError != nil)
        let last = planner.abandoned(try #require(Sample(attempts: 4).dispatch))
        #expect(last.status == .failed && last.code == "max_attempts_reached" && last.isOutcomeUnknown)
    }

    @Test func `a lost mutation is retried unless it was the last attempt`() throws {
        // the attempt was counted before the request was sent
        let first = Outcome(ofLost: Sample(attempts: 4).mutation, wasSent: true)
        #expect(first.status == .pending && first.isOutcomeUnknown && first.attemptCount == 4)
        #expect(first.lastError != nil)
        let last = Outcome(ofLost: Sample(attempts: 5).mutation, wasSent: true)
        #expect(last.status == .failed && last.code == "max_attempts_reached" && last.isOutcomeUnknown)
        let builtIn = Outcome(ofLost: Sample(attempts: 5).mutation, wasSent: false)
        #expect(builtIn.status == .pending && !builtIn.isOutcomeUnknown)
        let held = Outcome(ofUnsent: try #require(Sample(attempts: 3, isOutcomeUnknown: true).dispatch))
        #expect(held.status == .pending && held.attemptCount == 3 && held.isOutcomeUnknown && held.nextRetryAt == nil)
        let unsent = Outcome(ofUnsent: Sample(attempts: 5, isOutcomeUnknown: true).mutation, isForwarded: true)
        #expect(unsent.status == .pending && unsent.attemptCount == 4 && unsent.isOutcomeUnknown)
    }

    // MARK: - Ids

    @Test(arguments: [
        ("/id", #"{"id":"c-7"}"#, "c-7", false), ("/id", #"{"id":7}"#, "7", true),
        ("/id", #"{"id":"AAAAAAAA-0000-4000-8000-00000000000F"}"#, "aaaaaaaa-0000-4000-8000-00000000000f", false),
        ("/data/id", #"{"data":{"id":"x","n":1},"id":3}"#, "x", false),
        ("/data/0/id", #"{"data":[{"id":-4}]}"#, "-4", true),
        ("/a~1b", #"{"a/b":"y"}"#, "y", false),
    ])
    func `a create's ID is the one that the upstream returns`(
        _ pointer: String,
        _ json: String,
        _ text: String,
        _ isInteger: Bool
    )
        throws
    {
        var sample = Sample()
        sample.upstream?.idPointer = pointer
        let outcome = try #require(sample.outcome(201, json, location: "/contacts/99"))
        #expect(outcome.serverID == ServerID(text: text, isInteger: isInteger))
    }

    @Test func `the document is the object that contains the ID`() throws {
        var sample = Sample()
        sample.upstream?.idPointer = "/data/id"
        #expect(sample.outcome(201, #"{"data":{"id":"x","n":1},"ok":true}"#)?.document == #"{"id":"x","n":1}"#)
        #expect(sample.outcome(201, nil, location: "/contacts/x")?.document == #"{"name":"Kari"}"#)
    }

    @Test(arguments: [
        ("/contacts/7", "7", true), ("http://upstream.invalid:80/contacts/abc?x=1#f", "abc", false),
        ("/contacts/07", "07", false),
        ("/contacts/a%20b/", "a b", false), ("/contacts/a%2Fb", "a/b", false), ("42", "42", true),
        ("//UPSTREAM.invalid/contacts/3", "3", true),
        ("/contacts/AAAAAAAA-0000-4000-8000-00000000000F", "aaaaaaaa-0000-4000-8000-00000000000f", false),
    ])
    func `a create's ID may be in the Location header`(_ location: String, _ text: String, _ isInteger: Bool) {
        #expect(Sample().outcome(201, nil, location: location)?.serverID == ServerID(text: text, isInteger: isInteger))
        #expect(Sample().outcome(201, #"{"name":"x"}"#, location: location)?.serverID?.text == text)
    }

    @Test(
        arguments: [
            (nil, nil), (nil, "/"), (nil, "https://host"), (nil, "https://host/?id=7"), (#"{"uuid":7}"#, nil),
            ("[7]", nil),
            (#"{"id":null}"#, nil), (#"{"id":7.5}"#, nil), (#"{"id":{"x":1}}"#, nil), (#"{"id":""}"#, nil),
            ("not json", nil),
            (nil, "/contacts/%00"), (nil, "/contacts/" + String(repeating: "x", count: 201)),
        ] as [(String?, String?)]
    )
    func `a create whose answer contains no ID fails`(_ json: String?, _ location: String?) throws {
        let outcome = try #require(Sample().outcome(201, json, location: location))
        #expect(outcome.status == .failed && outcome.code == "upstream_answer_unusable")
        #expect(outcome.detail?.contains("does not identify the new entity") == true)
        #expect(outcome.lastError != nil && outcome.responseStatus == 201)
    }

    /// The head of a success proves that the request took effect, even if the body is incomplete.
    @Test func `a truncated success is a success`() throws {
        let broken = UpstreamResponse(status: 200, etag: "e", isCutOff: true)
        for operation in [SyncModel.Operation.update, .replace, .delete] {
            let outcome = try #require(Sample.of(operation).outcome(.response(broken)))
            #expect(outcome.status == .succeeded && !outcome.isOutcomeUnknown, "\(operation)")
        }
        #expect(Sample.of(.update).outcome(.response(broken))?.patch == #"{"name":"Kari"}"#)
        let named = UpstreamResponse(status: 201, location: "/contacts/7", isCutOff: true)
        #expect(Sample().outcome(.response(named))?.serverID?.text == "7")
        // without an id the create is sent again, under the same key
        let unnamed = UpstreamResponse(status: 201, isCutOff: true)
        let again = try #require(Sample().outcome(.response(unnamed)))
        #expect(again.status == .pending && again.isOutcomeUnknown && again.revision == 1 && again.pause == 4)
        let last = try #require(Sample(attempts: 4).outcome(.response(unnamed)))
        #expect(last.status == .failed && last.isOutcomeUnknown && last.code == "max_attempts_reached")
    }

    @Test func `an update's answer is the entity only if it contains its ID`() {
        let update = Sample.of(.update)
        #expect(update.outcome(200, #"{"id":7,"n":1}"#, etag: "e")?.document == #"{"id":7,"n":1}"#)
        #expect(update.outcome(200, #"{"id":"7","n":1}"#)?.document == #"{"id":"7","n":1}"#)
        #expect(update.outcome(200, #"{"id":8,"n":1}"#, etag: "e")?.patch == #"{"name":"Kari"}"#)
        #expect(update.outcome(204, etag: "e")?.patch == #"{"name":"Kari"}"#)
        #expect(update.outcome(204, etag: "e")?.etag == "e")
        #expect(update.outcome(204, etag: "e")?.feedETag == "e")
        #expect(Sample.of(.replace).outcome(200, #"{"id":8}"#)?.document == #"{"name":"Kari"}"#)
    }

    // MARK: - Conflicts

    @Test func `takes a 409 for the echo of an earlier attempt at most twice`() throws {
        var sample = Sample(strategy: .manual, isOutcomeUnknown: true)
        for count in 1...2 {
            let outcome = try #require(sample.outcome(409))
            #expect(outcome.status == .pending && outcome.kind == .deferred && outcome.conflictRetries == Int16(count))
            sample = sample.after(outcome)
        }
        #expect(sample.outcome(409)?.status == .conflict)
        #expect(sample.outcome(409, retryAfter: 60)?.status == .conflict)
    }

    @Test(arguments: SyncModel.Operation.allCases)
    func `a revision that conflicts again after client_wins waits for a person`(_ operation: SyncModel.Operation) throws
    {
        for strategy in ConflictResolution.allCases {
            var sample = Sample.of(operation, strategy)
            sample.resolution = .clientWins
            sample.override = SentRequest(method: "PUT", endpoint: "/contacts/7", payload: nil)
            let outcome = try #require(sample.outcome(412, #"{"id":7}"#))
            #expect(outcome.status == .conflict && outcome.resolution == nil && outcome.override == nil)
        }
    }

    @Test func `a client_wins resolution holds for further attempts`() throws {
        let first = Sample.of(.replace, .clientWins)
        let overridden = first.after(try #require(first.outcome(412)))
        for answer in [UpstreamAnswer.notSent("x"), .unknown("x"), .response(UpstreamResponse(status: 503))] {
            let outcome = try #require(overridden.outcome(answer))
            #expect(outcome.override == overridden.override && outcome.resolution == .clientWins)
            #expect(outcome.revision == 2 && outcome.attemptCount == 1)
        }
        #expect(overridden.outcome(401)?.override == overridden.override)
    }

    @Test func `a create resolved with client_wins gets the ID of the entity that it overwrote`() throws {
        let create = Sample.of(.create, .clientWins)
        let conflict = try #require(create.outcome(409, #"{"id":7,"name":"Ola"}"#, location: "/contacts/7"))
        #expect(conflict.override?.line == "PUT /contacts/7 -")
        let overridden = create.after(conflict)
        #expect(overridden.request?.path == "/contacts/7")
        // many APIs answer a PUT without a body
        let outcome = try #require(overridden.outcome(204))
        #expect(outcome.status == .succeeded)
        #expect(outcome.serverID == ServerID(text: "7", isInteger: true))
        #expect(outcome.document == #"{"name":"Kari"}"#)
        // after another conflict it is sent as a create again, and makes another entity
        let again = try #require(overridden.outcome(412, #"{"id":7}"#))
        #expect(again.existingID?.text == "7")
        #expect(overridden.after(again).outcome(201, #"{"id":9}"#)?.serverID?.text == "9")
    }

    /// Many APIs give their errors an `id`: a name of the error, or the id of the request.
    @Test(arguments: [409, 412]) func `a create whose existing entity is not identified waits for a person`(
        _ status: Int
    ) {
        let bodies = [nil, "{}", #"{"error":"exists"}"#, #"{"id":"conflict","message":"exists"}"#, #"{"id":7}"#]
        let places = [nil, "/jobs/7", "https://elsewhere.example/contacts/7", "/contacts"]
        for strategy in ConflictResolution.allCases {
            for (json, location) in bodies.flatMap({ body in places.map { (body, $0) } }) {
                let outcome = Sample.of(.create, strategy).outcome(status, json, location: location)
                #expect(outcome?.status == .conflict && outcome?.resolution == nil && outcome?.override == nil)
                #expect(outcome?.serverID == nil && outcome?.current == nil && outcome?.existingID == nil)
                let detail =
                    "the upstream answered \(status), but the answer does not identify the existing entity: "
                    + "it contains no id of this entity, or two different ids"
                #expect(outcome?.detail == detail)
            }
        }
    }

    @Test func `Location identifies the existing entity of a create's conflict`() throws {
        let error = #"{"id":"conflict","message":"exists"}"#
        for json in [nil, error] {
            let manual = try #require(Sample.of(.create).outcome(409, json, location: "/contacts/91"))
            #expect(manual.status == .conflict && manual.existingID?.text == "91" && manual.current == nil)
            #expect(manual.detail == "the upstream answered 409")
            let server = try #require(Sample.of(.create, .serverWins).outcome(409, json, location: "/contacts/91"))
            #expect(server.status == .discarded && server.serverID?.text == "91" && server.document == nil)
            let client = try #require(Sample.of(.create, .clientWins).outcome(409, json, location: "/contacts/91"))
            #expect(client.override?.line == "PUT /contacts/91 -" && client.serverID?.text == "91")
        }
        let shown = Sample.of(.create).outcome(409, #"{"id":"91","name":"Ola"}"#, location: "/contacts/91")
        #expect(shown?.current == #"{"id":"91","name":"Ola"}"# && shown?.existingID?.isInteger == false)
    }

    @Test func `the conflict of a create with a known ID shows only a document with this ID`() {
        var shared = Sample.of(.create, .clientWins)
        shared.idSpace = .shared
        shared.client = nil
        shared.serverID = ServerID(text: "g-1", isInteger: false)
        #expect(shared.outcome(409, #"{"id":"g-1"}"#)?.status == .conflict)
        shared.strategy = .serverWins
        #expect(shared.outcome(409, #"{"id":"g-1"}"#)?.document == #"{"id":"g-1"}"#)
        let other = shared.outcome(409, #"{"id":"conflict","message":"exists"}"#)
        #expect(other?.status == .discarded && other?.serverID?.text == "g-1" && other?.document == nil)
    }

    @Test func `an answer about another entity is not shown as the server's state`() {
        let outcome = Sample.of(.update).outcome(412, #"{"id":8,"secret":1}"#)
        #expect(outcome?.status == .conflict && outcome?.current == nil)
        #expect(Sample.of(.update, .serverWins).outcome(412, #"{"id":8}"#)?.document == nil)
    }

    @Test func `a conflict records the feed's version at the time of the request`() throws {
        for (known, expected) in [(nil, Int64(0)), (Int64(3), 3)] {
            var sample = Sample.of(.update)
            sample.entity = known.map {
                EntityState.known(
                    etag: nil,
                    owner: Sample.lane.user,
                    lastWriter: Sample.writer,
                    version: $0,
                    runBase: 0
                )
            }
            #expect(sample.outcome(412, #"{"id":7}"#)?.feedVersion == expected)
        }
        #expect(Sample.of(.create).outcome(409, #"{"id":7}"#, location: "/contacts/7")?.feedVersion == nil)
    }

    @Test func `last_error contains the answer up to a limit`() {
        let long = #"{"error":"\#(String(repeating: "å", count: 5_000))"}"#
        let outcome = Sample().outcome(422, long)
        #expect(outcome?.lastError?.hasPrefix(#"the upstream answered 422: {"error":"å"#) == true)
        #expect((outcome?.lastError?.utf8.count ?? 0) < 1_100)
        // the problem omits the upstream's text, for every kind of JSON
        for json in [#""secret""#, #"{"a":"secret"}"#, #"["secret"]"#] {
            #expect(
                Sample(attempts: 4).outcome(503, json)?.detail == "failed after 5 attempts; the upstream answered 503"
            )
        }
    }
}

@Suite struct ClientWinsTests {
    private func plan(
        _ operation: SyncModel.Operation,
        current: String? = nil,
        serverID: ServerID? = ServerID(text: "7", isInteger: true),
        idSpace: IDSpace = .mapped,
        endpoint: String = "/contacts/7?full=1",
        payload: String? = #"{"a":2,"b":null}"#
    ) -> String? {
        ClientWins.plan(
            operation: operation,
            idSpace: idSpace,
            endpoint: endpoint,
            payload: payload.flatMap { try? JSONTree(parsing: Array($0.utf8)).root },
            current: current.map { Array($0.utf8) },
            serverID: serverID
        )?.line
    }

    @Test func `sends replaces and deletes independent of the current state`() {
        for current in [nil, #"{"id":7,"b":1}"#] {
            #expect(plan(.replace, current: current) == "PUT - -")
            #expect(plan(.delete, current: current, payload: nil) == "DELETE - -")
        }
    }

    @Test func `merges an update into the server's document`() {
        #expect(plan(.update, current: #"{"id":7,"b":1,"c":3}"#) == #"PUT - {"id":7,"c":3,"a":2}"#)
        #expect(plan(.update) == "PATCH - -")
    }

    @Test func `a create is sent to the existing entity`() {
        #expect(plan(.create, endpoint: "/contacts?full=1") == "PUT /contacts/7?full=1 -")
        #expect(
            plan(.create, serverID: ServerID(text: "a/b", isInteger: false), endpoint: "/contacts/")
                == "PUT /contacts/a%2Fb -"
        )
        #expect(plan(.create, serverID: nil) == nil)
        #expect(plan(.create, idSpace: .shared) == nil)
    }

    @Test func `a request that the gateway refuses fails immediately and costs no attempt`() throws {
        for (attempts, isUnknown) in [(Int16(0), false), (3, true)] {
            var sample = Sample.of(.update)
            (sample.attempts, sample.isOutcomeUnknown) = (attempts, isUnknown)
            let outcome = try #require(sample.outcome(.refused("the path has a '.' or '..' segment")))
            #expect(outcome.status == .failed && outcome.kind == .refused && outcome.attemptCount == attempts)
            #expect(outcome.isOutcomeUnknown == isUnknown, "there is no evidence about an earlier attempt")
            #expect(outcome.nextRetryAt == nil && outcome.revision == 1)
            let problem = try JSONTree(parsing: #require(outcome.error)).root
            #expect(problem["code"]?.string == "validation_failed")
            #expect(problem["detail"]?.string == "it cannot be sent: the path has a '.' or '..' segment")
        }
    }

    @Test func `a request that the configuration does not allow waits and costs no attempt`() throws {
        let outcome = try #require(
            Sample(attempts: 4, maxAttempts: 5).outcome(.unready("no signing key is configured"))
        )
        #expect(outcome.status == .pending && outcome.kind == .refused && outcome.attemptCount == 4)
        #expect(outcome.nextRetryAt == Sample.now.adding(seconds: 30))
        #expect(outcome.lastError == "no request can be sent to the upstream: no signing key is configured")
    }
}
