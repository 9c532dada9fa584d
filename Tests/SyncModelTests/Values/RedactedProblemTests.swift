import JSONText
import Testing

@testable import SyncModel

/// The parts of a problem that operators without access to payloads see.
@Suite struct RedactedProblemTests {
    private static func redacted(_ json: [UInt8]) throws -> JSONValue {
        try JSONTree(parsing: try #require(StoredProblem.redacted(json))).root
    }

    @Test(
        arguments: [
            "/people/ola@example.org/", "https://host/people/ola,(x),", "/ola)", "/ola),", "/(Location:/ola",
            "/" + String(repeating: "ola", count: 100),
        ]
    )
    func `omits the address of a redirect`(_ location: String) throws {
        let sample = Sample(attempts: 1, hold: AuthBackoff(count: 2, since: Sample.now))
        let error = try #require(sample.outcome(301, location: location, othersSucceeded: true)?.error)
        #expect(String(decoding: error, as: UTF8.self).contains("ola"))
        let words =
            "the upstream answered 301 (Location withheld), but has accepted other requests since, "
            + "so only this request is rejected"
        #expect(StoredProblem(error).detail == words)
        let redacted = try Self.redacted(error)
        #expect(redacted["detail"]?.string == words && redacted["code"]?.string == "upstream_rejected")
        let alone = UpstreamResponse(status: 302, location: location).words
        #expect(UpstreamResponse.withoutPlace(alone) == "the upstream answered 302 (Location withheld)")
        let cut = String(alone.dropLast(2))
        #expect(UpstreamResponse.withoutPlace(cut) == "the upstream answered 302 (Location withheld)")
    }

    @Test(
        arguments: [
            "the upstream answered 301", "the upstream answered 401 (it asks for Bearer)",
            "failed after 5 attempts; the upstream answered 503", "Location: a place", "",
        ]
    )
    func `other texts stay unchanged`(_ words: String) {
        #expect(UpstreamResponse.withoutPlace(words) == words)
    }

    /// U+0600 forms one character with the following space, U+0301 with the preceding slash.
    @Test(
        arguments: [
            "/folder", "/folder/0", "/ola@example.org", "/\u{600}", "/\u{301}ola", "/ola holds x", "/payload/x",
        ]
    )
    func `omits members of the payload`(_ member: String) throws {
        let pointer = "/payload" + member
        let words = "contains local id 7 in 'folder', which has no server id"
        let rule = Rule.entityReference
        let json = Problem(.dependencyRejected, pointer: pointer, rule: rule, "\(pointer) \(words)").json
        #expect(StoredProblem(json).detail == "/payload " + words)
        let error = try Self.redacted(json)["errors"]?.elements.map(Array.init)?.first
        #expect(error?["pointer"]?.string == "/payload" && error?["rule"]?.string == rule)
        #expect(error?["detail"]?.string == "/payload " + words)
    }

    @Test func `one pointer may begin with another`() throws {
        var problem = Problem(.dependencyRejected, "see /payload/a and /payload/ab")
        problem.errors = ["/payload/a", "/payload/ab", "/mutations/0"].map {
            ProblemDetail(pointer: $0, rule: "x", detail: "at \($0)")
        }
        #expect(StoredProblem(problem.json).detail == "see /payload and /payload")
        let errors = try Self.redacted(problem.json)["errors"]?.elements.map(Array.init) ?? []
        #expect(errors.map { $0["pointer"]?.string } == ["/payload", "/payload", "/mutations/0"])
        #expect(errors.map { $0["detail"]?.string } == ["at /payload", "at /payload", "at /mutations/0"])
    }

    @Test func `omits the entity of a conflict at any depth`() throws {
        var problem = Problem(.conflict, "another writer changed the entity")
        problem.current = Array((String(repeating: "[", count: 600) + String(repeating: "]", count: 600)).utf8)
        #expect(StoredProblem(problem.json).code == "conflict")
        let redacted = try Self.redacted(problem.json)
        #expect(redacted["current"] == nil && redacted["detail"]?.string == "another writer changed the entity")
        // unreadable problems are not shown
        for broken in ["{", "[]", "7"] { #expect(StoredProblem.redacted(Array(broken.utf8)) == nil) }
    }
}
