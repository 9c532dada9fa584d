import Testing

@testable import Sluice

@Suite struct NearestNameTests {
    @Test(arguments: [
        ("max_mutation", "max_mutations"), ("max_mutatoins", "max_mutations"), ("jwtsecret", "jwt_secret"),
        ("secret", nil), ("", nil), ("x", nil), ("log_level", "log_level"),
    ])
    func `a slip of the hand is recognized`(name: String, meant: String?) {
        #expect(NearestName.of(name, among: ["max_mutations", "jwt_secret", "log_level"]) == meant)
    }

    @Test func `without candidates nothing is meant`() {
        #expect(NearestName.of("log_level", among: []) == nil)
    }
}
