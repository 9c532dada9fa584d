import Testing

@testable import SyncModel

@Suite struct NearestNameTests {
    @Test(arguments: [
        ("max_mutation", "max_mutations"), ("max_mutatoins", "max_mutations"), ("jwtsecret", "jwt_secret"),
        ("secret", "jwt_secret"), ("", nil), ("x", nil), ("log_level", "log_level"), ("maxMutations", "max_mutations"),
        ("LOG-LEVEL", "log_level"), ("color", nil), (String(repeating: "x", count: 65), nil),
    ])
    func `recognizes typing errors, other spellings and single words`(name: String, meant: String?) {
        #expect(NearestName.of(name, among: ["max_mutations", "jwt_secret", "log_level"]) == meant)
    }

    @Test func `suggests nothing without candidates`() {
        #expect(NearestName.of("log_level", among: []) == nil)
    }

    @Test(arguments: [
        ("sequence", "sequence_number"), ("sequenceNumber", "sequence_number"), ("type", "entity_type"),
        ("base", "base_version"), ("idempotencyKey", "idempotency_key"), ("uid", "id"), ("local", "local_id"),
        ("data", nil), ("ids", "id"), ("zz", nil),
    ])
    func `suggests members of a mutation`(name: String, meant: String?) {
        #expect(NearestName.of(name, among: MutationMember.names) == meant)
    }

    @Test func `suggests nothing if several names begin with the word`() {
        #expect(NearestName.of("retention", among: ["retention_days", "retention_hours"]) == nil)
    }

    @Test func `reports an unknown member with the likely name`() {
        let what = "a push: device_id, after_sequence, mutations"
        #expect(
            UnknownMember.detail("deviceId", of: what) == "'deviceId' is not a member of \(what); is 'device_id' meant?"
        )
        #expect(UnknownMember.detail("color", of: what) == "'color' is not a member of \(what)")
        #expect(UnknownMember.detail("deviceId", of: what, isSuggesting: false).hasSuffix(what))
        let long = String(repeating: "ä", count: 10_000)
        #expect(UnknownMember.detail(long, of: what).utf8.count < 250)
    }
}
