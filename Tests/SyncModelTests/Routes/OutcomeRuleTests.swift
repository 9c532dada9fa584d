import Foundation
import JSONText
import TestSupport
import Testing

@testable import SyncModel

@Suite struct OutcomeRuleTests {
    private static func read(_ json: String) throws -> (rules: OutcomeRules, errors: [ProblemDetail]) {
        var errors: [ProblemDetail] = []
        let rules = OutcomeRules(try JSONTree(parsing: Array(json.utf8)).root, at: "/outcomes", &errors)
        return (rules, errors)
    }

    private static func place(_ json: String, _ status: Int, _ body: String?) throws -> String? {
        let (rules, errors) = try read(json)
        #expect(errors.isEmpty, "\(errors)")
        let root = try body.map { try JSONTree(parsing: Array($0.utf8)).root }
        return rules.first(status: status, body: root)?.place
    }

    @Test func `the first rule that matches status and body decides`() throws {
        let rules = """
            [{"status": "2xx", "where": [{"pointer": "/errors/0/code", "is": "CONFLICT"}], "then": "conflict"},
             {"status": [200, 207], "where": [{"pointer": "/errors", "exists": true}], "then": "failed"},
             {"status": "2xx", "where": [{"pointer": "/success", "is": false}], "then": "failed"},
             {"status": 404, "where": [{"pointer": "/code", "not": 7}], "then": "retry"}]
            """
        #expect(try Self.place(rules, 200, #"{"errors":[{"code":"CONFLICT"}]}"#) == "/outcomes/0")
        #expect(try Self.place(rules, 200, #"{"errors":[]}"#) == "/outcomes/1")
        #expect(try Self.place(rules, 201, #"{"errors":[]}"#) == nil)
        #expect(try Self.place(rules, 201, #"{"success":false}"#) == "/outcomes/2")
        #expect(try Self.place(rules, 201, #"{"success":"false"}"#) == nil)
        #expect(try Self.place(rules, 404, #"{"code":7.0}"#) == nil)
        #expect(try Self.place(rules, 404, #"{"code":8}"#) == "/outcomes/3")
        #expect(try Self.place(rules, 404, nil) == "/outcomes/3", "a missing value differs from any value")
        // other readers may use another of several members with one name
        #expect(try Self.place(rules, 201, #"{"success":false,"success":true}"#) == nil)
        #expect(try Self.place(rules, 200, #"{"errors":[{"code":"CONFLICT","code":1}]}"#) == "/outcomes/1")
        #expect(try Self.place(rules, 404, #"{"code":8,"code":9}"#) == nil)
        #expect(try Self.place(rules, 404, #"{"code":8,"x":1,"x":2}"#) == "/outcomes/3")
    }

    @Test(arguments: [
        (#"{}"#, "/outcomes", "array"), (#"[1]"#, "/outcomes/0", "object"),
        (#"[{"status":200}]"#, "/outcomes/0/then", "has a then"),
        (#"[{"then":"failed"}]"#, "/outcomes/0/status", "status"),
        (#"[{"status":"6xx","then":"failed"}]"#, "/outcomes/0/status", "2xx"),
        (#"[{"status":[200,[201]],"then":"failed"}]"#, "/outcomes/0/status", "2xx"),
        (#"[{"status":199,"then":"failed"}]"#, "/outcomes/0/status", "200 to 599"),
        (#"[{"status":200,"then":"fail"}]"#, "/outcomes/0/then", "succeeded, failed"),
        (#"[{"status":200,"then":"failed","mesage":"/m"}]"#, "/outcomes/0/mesage", "'message' meant"),
        (#"[{"status":200,"then":"failed","message":"m"}]"#, "/outcomes/0/message", "JSON Pointer"),
        (#"[{"status":200,"then":"failed","document":"/d"}]"#, "/outcomes/0/document", "conflict"),
        (#"[{"status":200,"then":"succeeded","message":"/m"}]"#, "/outcomes/0/message", "no message"),
        (#"[{"status":"5xx","then":"succeeded"}]"#, "/outcomes/0/status", "any effect"),
        (#"[{"status":"5xx","then":"failed"}]"#, "/outcomes/0/status", "condition on its body"),
        (
            #"[{"status":200,"where":[{"pointer":"x","is":1}],"then":"failed"}]"#, "/outcomes/0/where/0/pointer",
            "Pointer"
        ),
        (#"[{"status":200,"where":[{"pointer":"/x"}],"then":"failed"}]"#, "/outcomes/0/where/0", "one of is"),
        (#"[{"status":200,"where":[{"pointer":"/x","is":[]}],"then":"failed"}]"#, "/outcomes/0/where/0/is", "text"),
        (
            #"[{"status":200,"where":[{"pointer":"/x","is":1},{"pointer":"/x","is":2}],"then":"failed"}]"#,
            "/outcomes/0/where/1", "no answer satisfies"
        ),
        (
            #"[{"status":"2xx","then":"failed"},{"status":200,"where":[{"pointer":"/x","is":1}],"then":"retry"}]"#,
            "/outcomes/1", "never decides"
        ),
        (
            #"""
            [{"status":"2xx","where":[{"pointer":"/x","exists":true}],"then":"failed"},
             {"status":200,"where":[{"pointer":"/x","is":1}],"then":"retry"}]
            """#,
            "/outcomes/1", "never decides"
        ),
        (
            #"[{"status":200,"where":[{"pointer":"/a","exists":false},{"pointer":"/a/b","exists":true}],"then":"retry"}]"#,
            "/outcomes/0/where/1", "no answer satisfies"
        ),
        (
            #"[{"status":200,"where":[{"pointer":"/a/b","is":1},{"pointer":"","is":null}],"then":"retry"}]"#,
            "/outcomes/0/where/1", "no answer satisfies"
        ),
        (
            #"""
            [{"status":"2xx","where":[{"pointer":"/a","exists":true}],"then":"failed"},
             {"status":200,"where":[{"pointer":"/a/b","is":1}],"then":"retry"}]
            """#,
            "/outcomes/1", "never decides"
        ),
    ]) func `refuses rules without a meaning, with their place`(_ json: String, _ pointer: String, _ words: String)
        throws
    {
        let errors = try Self.read(json).errors
        #expect(errors.first?.pointer == pointer && errors.first?.detail.contains(words) == true, "\(errors)")
    }

    /// If a rule is refused because an earlier one covers it, the earlier rule matches all answers that the rule would
    /// match.
    @Test func `covers only rules that never decide`() throws {
        let seed = Seed()
        var random = seed.generator
        let values = ["1", "2", #""a""#, "true", "null"]
        func condition() -> String {
            let pointer = random.oneIn(2) ? "/x" : random.oneIn(2) ? "/y" : "/x/z"
            let value = values[Int.random(in: 0..<values.count, using: &random)]
            switch Int.random(in: 0..<3, using: &random) {
            case 0: return #"{"pointer":"\#(pointer)","is":\#(value)}"#
            case 1: return #"{"pointer":"\#(pointer)","not":\#(value)}"#
            default: return #"{"pointer":"\#(pointer)","exists":\#(random.oneIn(2))}"#
            }
        }
        let nested = [#"{"x":{}}"#, #"{"x":{"z":1}}"#, #"{"x":{"z":null}}"#]
        let flat = values.flatMap { x in [#"{"x":\#(x)}"#, #"{"y":\#(x)}"#, #"{"x":1,"y":\#(x)}"#] }
        let bodies = try (["{}"] + nested + flat)
            .map { try JSONTree(parsing: Array($0.utf8)).root }
        for _ in 0..<2_000 {
            let rules = (0..<2).map { _ in
                let conditions = (0..<Int.random(in: 0...2, using: &random)).map { _ in condition() }
                return
                    #"{"status":"\#(random.oneIn(2) ? 2 : 4)xx","where":[\#(conditions.joined(separator: ","))],"then":"retry"}"#
            }
            let (first, second) = (try Self.read("[\(rules[0])]"), try Self.read("[\(rules[1])]"))
            guard let one = first.rules.rules.first, let two = second.rules.rules.first else { continue }
            let isRefused = try !Self.read("[\(rules.joined(separator: ","))]").errors.isEmpty
            guard isRefused else { continue }
            for status in [200, 400] {
                for body in bodies where two.matches(status: status, body: body) {
                    #expect(one.matches(status: status, body: body), "\(seed): \(rules)")
                }
            }
        }
    }

    // MARK: - What they do

    private static func outcome(
        _ rules: String,
        _ status: Int,
        _ body: String?,
        of sample: Sample = .of(.update),
        isCutOff: Bool = false
    ) throws -> Outcome {
        var sample = sample
        sample.upstream?.outcomes = try read(rules).rules
        let response = UpstreamResponse(status: status, json: body.map { Array($0.utf8) }, isCutOff: isCutOff)
        return try #require(sample.outcome(.response(response)))
    }

    @Test func `a refusal inside a 200 is a failure, and names the rule and the upstream's message`() throws {
        let rules = #"[{"status":200,"where":[{"pointer":"/ok","is":false}],"then":"failed","message":"/why"}]"#
        let failed = try Self.outcome(rules, 200, #"{"id":7,"ok":false,"why":"too long"}"#)
        #expect(failed.status == .failed && failed.code == "upstream_rejected" && failed.kind == .rejected)
        #expect(failed.detail?.contains("the rule /outcomes/0. The upstream's message: too long") == true)
        #expect(!failed.haltsLane && failed.responseStatus == 200 && failed.document == nil)
        let done = try Self.outcome(rules, 200, #"{"id":7,"ok":true}"#)
        #expect(done.status == .succeeded && done.document == #"{"id":7,"ok":true}"#)
        let words = UpstreamResponse.withoutExcerpt(failed.detail ?? "")
        #expect(words.hasSuffix("(the upstream's message withheld)") && !words.contains("too long"))
    }

    @Test func `a rule halts the lane, retries or succeeds`() throws {
        let halted = try Self.outcome(#"[{"status":422,"then":"halt"}]"#, 422, nil)
        #expect(halted.status == .failed && halted.haltsLane)
        let retried = try Self.outcome(
            #"[{"status":"2xx","where":[{"pointer":"/busy","is":true}],"then":"retry"}]"#,
            200,
            #"{"busy":true}"#
        )
        #expect(retried.status == .pending && retried.kind == .deferred && retried.nextRetryAt != nil)
        #expect(!retried.isOutcomeUnknown)
        let unknown = try Self.outcome(#"[{"status":500,"then":"retry"}]"#, 500, nil)
        #expect(unknown.status == .pending && unknown.isOutcomeUnknown && unknown.kind == .serverError)
        let updated = try Self.outcome(#"[{"status":409,"then":"succeeded"}]"#, 409, #"{"id":7,"message":"x"}"#)
        #expect(updated.status == .succeeded && updated.document == nil)
        let document = #"[{"status":409,"then":"succeeded","document":"/now"}]"#
        let created = try Self.outcome(document, 409, #"{"id":1,"now":{"id":12}}"#, of: .of(.create))
        #expect(created.status == .succeeded && created.serverID == ServerID(12) && created.document == #"{"id":12}"#)
        for (rules, body) in [
            (#"[{"status":409,"then":"succeeded"}]"#, #"{"id":"conflict"}"#), (document, #"{"id":1,"now":{"n":1}}"#),
        ] {
            let unnamed = try Self.outcome(rules, 409, body, of: .of(.create))
            #expect(unnamed.code == "upstream_answer_unusable" && unnamed.serverID == nil)
            #expect(unnamed.detail?.contains("the rule finds no document with an id in the body") == true)
        }
    }

    @Test func `a rule's document identifies the existing entity of a create's conflict`() throws {
        func conflict(_ rule: String, _ body: String, _ location: String? = nil, isProblem: Bool = false) throws
            -> String
        {
            var sample = Sample.of(.create, .serverWins)
            sample.upstream?.outcomes = try Self.read(rule).rules
            var response = UpstreamResponse(status: 409, location: location, json: Array(body.utf8))
            response.isProblem = isProblem
            let outcome = try #require(sample.outcome(.response(response)))
            return "\(outcome.status) \(outcome.serverID?.text ?? "-") \(outcome.document ?? "-")"
        }
        let whole = #"[{"status":409,"then":"conflict","document":""}]"#
        let nested = #"[{"status":409,"then":"conflict","document":"/current"}]"#
        let current = #"{"id":"req-1","current":{"id":7}}"#
        #expect(try conflict(whole, #"{"id":7}"#) == #"discarded 7 {"id":7}"#)
        #expect(try conflict(nested, current) == #"discarded 7 {"id":7}"#)
        #expect(try conflict(nested, current, "/contacts/7") == #"discarded 7 {"id":7}"#)
        #expect(try conflict(nested, current, isProblem: true) == #"discarded 7 {"id":7}"#)
        #expect(try conflict(nested, #"{"message":"x"}"#, "/contacts/7") == "discarded 7 -")
        // the id outside of the document, the problem document, and two different ids identify no entity
        #expect(try conflict(nested, #"{"id":"req-1","current":{"n":1}}"#) == "conflict - -")
        #expect(try conflict(whole, #"{"id":"req-1"}"#, isProblem: true) == "conflict - -")
        #expect(try conflict(nested, current, "/contacts/8") == "conflict - -")
        #expect(try conflict(#"[{"status":409,"then":"conflict"}]"#, #"{"id":7}"#) == "conflict - -")
    }

    @Test func `a problem document is never the entity`() throws {
        for (operation, status) in [(SyncModel.Operation.update, 409), (.update, 412), (.create, 201), (.replace, 200)]
        {
            var response = UpstreamResponse(status: status, json: Array(#"{"id":7,"title":"x"}"#.utf8))
            response.isProblem = true
            let outcome = try #require(Sample.of(operation, .serverWins).outcome(.response(response)))
            #expect(outcome.current == nil && outcome.document != #"{"id":7,"title":"x"}"#, "\(operation)")
            #expect((outcome.serverID == nil) == (operation == .create), "\(operation)")
        }
    }

    @Test func `a conflict has its document where the rule finds it`() throws {
        let rules =
            #"[{"status":200,"where":[{"pointer":"/clash","exists":true}],"then":"conflict","document":"/clash/now"}]"#
        let body = #"{"id":7,"clash":{"now":{"name":"Ola"}}}"#
        let conflict = try Self.outcome(rules, 200, body)
        #expect(conflict.status == .conflict && conflict.current == #"{"name":"Ola"}"#)
        let adopted = try Self.outcome(rules, 200, body, of: .of(.update, .serverWins))
        #expect(adopted.status == .discarded && adopted.document == #"{"name":"Ola"}"#)
    }

    @Test func `an answer that breaks off before its body is unknown if a rule reads the body`() throws {
        let rules = #"[{"status":200,"where":[{"pointer":"/ok","is":false}],"then":"failed"}]"#
        let lost = try Self.outcome(rules, 200, nil, isCutOff: true)
        #expect(lost.status == .pending && lost.isOutcomeUnknown)
        let known = try Self.outcome(#"[{"status":204,"then":"failed"}]"#, 200, nil, isCutOff: true)
        #expect(known.status == .succeeded)
    }
}
