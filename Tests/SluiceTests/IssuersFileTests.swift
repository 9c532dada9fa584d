import Foundation
import Testing
import Tokens

@testable import Sluice

/// The file of issuers: what it says, and each way in which it can be wrong.
@Suite struct IssuersFileTests {
    private static let id = "0192f0c1-2345-7abc-8def-0123456789ab"

    private func issuers(_ text: String, _ environment: [String: String] = [:]) throws -> [TrustedIssuer] {
        let file = try TextFile(text)
        let variables = environment.merging(["SLUICE_JWT_ISSUERS_FILE": file.path]) { $1 }
        return try load(variables).tokenConfiguration().issuers
    }

    /// What is wrong, with `FILE` for the path.
    private func problem(_ text: String, _ environment: [String: String] = [:]) throws -> String {
        let file = try TextFile(text)
        let settings = try load(environment.merging(["SLUICE_JWT_ISSUERS_FILE": file.path]) { $1 })
        do throws(ConfigurationError) {
            _ = try settings.tokenConfiguration()
            return "nothing"
        } catch {
            #expect(error.problems.count == 1)
            return error.description.replacingOccurrences(of: file.path, with: "FILE")
        }
    }

    private func one(_ members: String) -> String { #"{"issuers":[{\#(members)}]}"# }

    @Test func eachIssuerHasKeysOrganizationsAndNamesOfItsOwn() throws {
        let (secret, keys) = (try TextFile("a secret of the tests, long enough\n"), try TextFile("{}"))
        let found = try issuers(
            """
            {"issuers": [
              {"issuer": "https://a", "jwks_url": "https://a/keys", "organizations": ["\(Self.id)"], "audience": "x"},
              {"issuer": "https://b", "keys_file": "\(keys.path)", "organizations": "any", "user_claim": "uid"},
              {"issuer": "https://c", "secret_file": "\(secret.path)", "organizations": ["\(Self.id.uppercased())"],
               "organization_claim": "tenant"}
            ]}
            """,
            ["SLUICE_JWT_AUDIENCE": "everybody's", "SLUICE_JWT_USER_CLAIM": "user"]
        )
        let id = try #require(UUID(uuidString: Self.id))
        #expect(found.map(\.issuer) == ["https://a", "https://b", "https://c"])
        #expect(found.map(\.audience) == ["x", "everybody's", "everybody's"])
        #expect(found.map(\.userClaim) == ["user", "uid", "user"])
        #expect(found.map(\.organizationClaim) == ["org", "org", "tenant"])
        #expect(found.map(\.organizations) == [.only([id]), .any, .only([id])])
        #expect(found.map(\.jwksURL) == ["https://a/keys", nil, nil])
        #expect(found[1].keys.map(\.name) == [keys.path])
        #expect(found[2].secret == Array("a secret of the tests, long enough".utf8))
    }

    @Test func aFileIsNamedFromTheFolderOfTheFile() throws {
        let keys = try TextFile("{}")
        let name = URL(filePath: keys.path).lastPathComponent
        let found = try issuers(one(#""issuer":"a","keys_file":"\#(name)","organizations":"any""#))
        #expect(found.first?.keys.first?.name == keys.path)
    }

    @Test func itWorksBesideTheOneIssuerOfOtherSettings() throws {
        let text = one(#""issuer":"https://a","jwks_url":"https://a/keys","organizations":"any""#)
        let both = try issuers(text, ["SLUICE_JWT_SECRET": "0123456789abcdef", "SLUICE_JWT_ISSUER": "https://own"])
        #expect(both.map(\.issuer) == ["https://own", "https://a"])
        #expect(both.map(\.organizations) == [.any, .any])
        let unnamed = try issuers(text, ["SLUICE_JWT_JWKS_URL": "https://own/keys"])
        #expect(unnamed.map(\.issuer) == [nil, "https://a"])
        let alone = try issuers(text, ["SLUICE_JWT_ISSUER": "https://a"])
        #expect(alone.map(\.issuer) == ["https://a"], "without keys of its own it is none")
    }

    @Test(arguments: [
        ("/issuers", #"{}"#, "must be a list of issuers"),
        ("/issuers", #"{"issuers":{}}"#, "must be a list of issuers"),
        ("/issuers", #"{"issuers":[]}"#, "must hold 1 to 100 issuers"),
        ("/issuer", #"{"issuer":[]}"#, "means nothing here; is issuers meant?"),
        ("/issuers/0", #"{"issuers":[7]}"#, "must be an object"),
        ("/issuers/0/issuer", #"{"issuers":[{}]}"#, "is missing"),
        ("/issuers/0/issuer", #"{"issuers":[{"issuer":7}]}"#, "must be a text of 1 to 1000 bytes"),
        ("/issuers/0/issuer", #"{"issuers":[{"issuer":""}]}"#, "must be a text of 1 to 1000 bytes"),
        ("/issuers/0/isuer", #"{"issuers":[{"isuer":"a"}]}"#, "means nothing here; is issuer meant?"),
        ("/issuers/0/issuer", #"{"issuers":[{"issuer":"a","issuer":"b"}]}"#, "cannot be taken: "),
    ])
    func whatIsWrongIsToldWithItsPlace(place: String, text: String, reason: String) throws {
        let problem = try problem(text)
        let start = "SLUICE_JWT_ISSUERS_FILE names FILE, in which \(place) \(reason)"
        #expect(problem.hasPrefix(start), "\(problem)")
    }

    @Test(arguments: [
        ("/organizations", #""jwks_url":"https://a/k""#, "is missing: list the organizations"),
        (
            "/organizations", #""jwks_url":"https://a/k","organizations":"all""#,
            "must be a list of organizations' UUIDs"
        ),
        ("/organizations", #""jwks_url":"https://a/k","organizations":[]"#, "must hold 1 to 10000 organizations"),
        ("/organizations/1", #""jwks_url":"https://a/k","organizations":["ID","x"]"#, "must be a UUID"),
        ("/organizations/1", #""jwks_url":"https://a/k","organizations":["ID","ID"]"#, "comes twice"),
        ("", #""organizations":"any""#, "must have one of jwks_url, keys_file and secret_file"),
        ("", #""organizations":"any","jwks_url":"https://a/k","keys_file":"/k""#, "must have one of"),
        ("", #""organizations":"any","jwks_url":"https://a/k","user_claim":"org""#, "has one claim for both"),
        ("/jwks_url", #""organizations":"any","jwks_url":"ftp://a/k""#, "must start with http:// or https://"),
        ("/jwks_url", #""organizations":"any","jwks_url":"https://u:hushhush@a/k""#, "may hold no user or password"),
        ("/keys_file", #""organizations":"any","keys_file":"/nowhere""#, "names a file that cannot be read"),
        ("/secret_file", #""organizations":"any","secret_file":"/nowhere""#, "names a file that cannot be read"),
        ("/secret_file", #""organizations":"any","secret_file":"/etc/hostname""#, "names a "),
        ("/secret", #""organizations":"any","secret":"hushhush""#, "means nothing here."),
    ])
    func anIssuerThatIsWrongIsToldWithItsPlace(place: String, members: String, reason: String) throws {
        let members = #""issuer":"https://a","# + members.replacingOccurrences(of: "ID", with: Self.id)
        let problem = try problem(one(members))
        let start = "SLUICE_JWT_ISSUERS_FILE names FILE, in which /issuers/0\(place) \(reason)"
        #expect(problem.hasPrefix(start), "\(problem)")
        #expect(!problem.contains("hushhush"))
    }

    @Test func anIssuerThatComesTwiceIsRefused() throws {
        let entry = #"{"issuer":"https://a","jwks_url":"https://a/keys","organizations":"any"}"#
        #expect(
            try problem(#"{"issuers":[\#(entry),\#(entry)]}"#)
                == "SLUICE_JWT_ISSUERS_FILE names FILE, in which /issuers/1/issuer is the same as /issuers/0/issuer."
        )
        #expect(
            try problem(
                #"{"issuers":[\#(entry)]}"#,
                ["SLUICE_JWT_SECRET": "0123456789abcdef", "SLUICE_JWT_ISSUER": "https://a"]
            )
                == "SLUICE_JWT_ISSUERS_FILE names FILE, in which /issuers/0/issuer is the issuer that SLUICE_JWT_ISSUER "
                + "names already."
        )
    }

    @Test(arguments: ["", "[]", "issuers:", #"{"issuers":"#])
    func whatIsNoObjectIsRefused(text: String) throws {
        #expect(try problem(text) == "SLUICE_JWT_ISSUERS_FILE names FILE, which is not a JSON object.")
    }

    @Test func aFileThatIsNotThereIsRefused() throws {
        do throws(ConfigurationError) {
            let settings = try Settings.load(configFile: nil, environment: ["SLUICE_JWT_ISSUERS_FILE": "/nowhere"])
            _ = try settings.tokenConfiguration()
            Issue.record("a file that is not there was read")
        } catch {
            #expect(error.description == "SLUICE_JWT_ISSUERS_FILE names /nowhere, which cannot be read.")
        }
    }

    @Test(arguments: [
        "ftp://id.example/keys", "id.example/keys", "https://", "https://u:hushhush@id.example/keys",
        "https://id.example/keys#1", "https://id.example/ keys", "https://id.example:0/keys", "file:///etc/passwd",
    ])
    func aURLOfKeysIsHTTPWithoutCredentials(text: String) throws {
        let found = try problems(["SLUICE_JWT_JWKS_URL": text])
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("SLUICE_JWT_JWKS_URL must be a URL such as ") == true)
        #expect(found.first?.contains("hushhush") == false)
    }

    @Test(arguments: [
        "https://id.example/keys?p=1&t=a%20b", "http://localhost:8080/k", "https://[::1]:1/a/b", "https://id",
    ])
    func otherURLsAreTakenAndTheirQueriesNotShown(text: String) throws {
        let settings = try load(["SLUICE_JWT_JWKS_URL": text])
        #expect(settings.jwtJWKSURL == text)
        #expect(settings.warnings == [])
        let shown = settings.inForce.first { $0.name == "jwt_jwks_url" }?.value
        #expect(shown == String(text.prefix { $0 != "?" }))
    }

    @Test func keysThatComeWithoutTLSAreWarnedOf() throws {
        #expect(try load(["SLUICE_JWT_JWKS_URL": "http://id.example/keys"]).warnings.count == 1)
    }
}
