import Foundation
import SyncModel
import Testing
import Tokens

@testable import CommandSupport

/// The issuers file: its content, and each kind of error.
@Suite struct IssuersFileTests {
    private static let id = "0192f0c1-2345-7abc-8def-0123456789ab"

    private func issuers(_ text: String, _ environment: [String: String] = [:]) throws -> [TrustedIssuer] {
        let file = try TextFile(text)
        return try load(variables(environment, file)).tokenConfiguration().issuers
    }

    /// The problem, with `FILE` for the path.
    private func problem(_ text: String, _ environment: [String: String] = [:]) throws -> String {
        let file = try TextFile(text)
        let settings = try load(variables(environment, file))
        do throws(ConfigurationError) {
            _ = try settings.tokenConfiguration()
            return "nothing"
        } catch {
            #expect(error.problems.count == 1)
            return error.description.replacingOccurrences(of: file.path, with: "FILE")
        }
    }

    /// Keys are exclusive, unless a test sets otherwise.
    private func variables(_ environment: [String: String], _ file: TextFile) -> [String: String] {
        ["SLUICE_JWT_EXCLUSIVE_KEYS": "yes", "SLUICE_JWT_ISSUERS_FILE": file.path].merging(environment) { $1 }
    }

    private func one(_ members: String) -> String { #"{"issuers":[{\#(members)}]}"# }

    @Test func `each issuer has its own keys, organizations and claim names`() throws {
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
        #expect(found.map(\.places.user.description) == ["user", "uid", "user"])
        #expect(found.map(\.places.organization.place?.description) == ["org", "org", "tenant"])
        #expect(found.map(\.organizations) == [.only([id]), .any, .only([id])])
        #expect(found.map(\.jwksURL) == ["https://a/keys", nil, nil])
        #expect(found[1].keys.map(\.name) == [keys.path])
        #expect(found[2].secret == Array("a secret of the tests, long enough".utf8))
    }

    @Test func `each issuer defines its claims or uses those of the settings`() throws {
        let key = #""jwks_url": "https://a/keys", "organizations""#
        let found = try issuers(
            """
            {"issuers": [
              {"issuer": "https://a", \(key): "any"},
              {"issuer": "https://b", \(key): "any", "user_claim": "$.oid", "organization_keys": "$.organization",
               "user_ids": "mapped", "organization_ids": "external", "audience_claim": "azp", "namespace": "b",
               "channel_claim": "$.groups", "channel_role": "write"},
              {"issuer": "https://c", "jwks_url": "https://a/keys", "organization": "\(Self.id)"},
              {"issuer": "https://d", \(key): ["\(Self.id)"], "organization": "\(Self.id)", "organization_ids": "uuid"}
            ]}
            """,
            ["SLUICE_JWT_ORGANIZATION_CLAIM": "$.o.id", "SLUICE_JWT_USER_IDS": "uuid"]
        )
        let id = try #require(UUID(uuidString: Self.id))
        #expect(found.map(\.places.user.description) == ["sub", "$.oid", "sub", "sub"])
        #expect(found[0].places.organization == .claim(try ClaimPlace(parsing: "$.o.id")))
        #expect(found[1].places.organization == .keys(ClaimPlace(named: "organization")))
        #expect(found[2].places.organization == .fixed(id) && found[3].places.organization == .fixed(id))
        #expect(found.map(\.places.userForm) == [.uuid, .mapped, .uuid, .uuid])
        #expect(found.map(\.places.organizationForm) == [.either, .external, .either, .uuid])
        #expect(found.map(\.channels?.place.description) == [nil, "$.groups", nil, nil])
        #expect(found.map(\.channels?.role) == [nil, .write, nil, nil])
        #expect(found.map(\.audienceClaim.description) == ["aud", "azp", "aud", "aud"])
        #expect(found.map(\.rememberedAs) == ["https://a", "b", "https://c", "https://d"])
        #expect(found.map(\.organizations) == [.any, .any, .only([id]), .only([id])])
    }

    /// An issuer also signs for its other customers. Without an audience, their users' tokens would be accepted.
    @Test func `public keys require an audience unless they are exclusive`() throws {
        let keys = try TextFile("{}")
        let open = ["SLUICE_JWT_EXCLUSIVE_KEYS": "no"]
        for source in [#""jwks_url":"https://a/keys""#, #""keys_file":"\#(keys.path)""#] {
            let bare = #""issuer":"https://a",\#(source),"organizations":"any""#
            #expect(
                try problem(one(bare), open).contains("in which /issuers/0/audience is missing: if the issuer signs")
            )
            #expect(try problem(one(bare + #","exclusive_keys":false"#)).contains("/issuers/0/audience is missing"))
            #expect(
                try problem(one(bare + #","exclusive_keys":"yes""#)).contains("exclusive_keys must be true or false")
            )
            #expect(try issuers(one(bare + #","exclusive_keys":true"#), open).count == 1)
            #expect(try issuers(one(bare + #","audience":"us""#), open).first?.audience == "us")
            #expect(try issuers(one(bare), open.merging(["SLUICE_JWT_AUDIENCE": "us"]) { $1 }).first?.audience == "us")
        }
        let secret = try TextFile("a secret of the tests, long enough\n")
        let shared = one(#""issuer":"https://c","secret_file":"\#(secret.path)","organizations":"any""#)
        #expect(try issuers(shared, open).first?.audience == nil, "a secret requires no audience")
    }

    @Test func `paths are relative to the folder of the issuers file`() throws {
        let keys = try TextFile("{}")
        let name = URL(filePath: keys.path).lastPathComponent
        let found = try issuers(one(#""issuer":"a","keys_file":"\#(name)","organizations":"any""#))
        #expect(found.first?.keys.first?.name == keys.path)
    }

    @Test func `the issuers of the file are added to the issuer of the settings`() throws {
        let text = one(#""issuer":"https://a","jwks_url":"https://a/keys","organizations":"any""#)
        let both = try issuers(text, ["SLUICE_JWT_SECRET": "0123456789abcdef", "SLUICE_JWT_ISSUER": "https://own"])
        #expect(both.map(\.issuer) == ["https://own", "https://a"])
        #expect(both.map(\.organizations) == [.any, .any])
        let unnamed = try issuers(text, ["SLUICE_JWT_JWKS_URL": "https://own/keys"])
        #expect(unnamed.map(\.issuer) == [nil, "https://a"])
        let alone = try issuers(text, ["SLUICE_JWT_ISSUER": "https://a"])
        #expect(alone.map(\.issuer) == ["https://a"], "without keys, the settings define no issuer")
    }

    @Test(arguments: [
        ("/issuers", #"{}"#, "must be a list of issuers"),
        ("/issuers", #"{"issuers":{}}"#, "must be a list of issuers"),
        ("/issuers", #"{"issuers":[]}"#, "must contain 1 to 100 issuers"),
        ("/issuer", #"{"issuer":[]}"#, "is unknown; did you mean issuers?"),
        ("/issuers/0", #"{"issuers":[7]}"#, "must be an object"),
        ("/issuers/0/issuer", #"{"issuers":[{}]}"#, "is missing"),
        ("/issuers/0/issuer", #"{"issuers":[{"issuer":7}]}"#, "must be a text of 1 to 1000 bytes"),
        ("/issuers/0/issuer", #"{"issuers":[{"issuer":""}]}"#, "must be a text of 1 to 1000 bytes"),
        (
            "/issuers/0/issuer", #"{"issuers":[{"issuer":"https://a\u0007"}]}"#,
            "must be a text of 1 to 1000 bytes without control characters"
        ),
        (#"/issuers/0/\u{1b}[2J\u{202e}"#, #"{"issuers":[{"\u001b[2J\u202e":"x"}]}"#, "is unknown"),
        ("/issuers/0/isuer", #"{"issuers":[{"isuer":"a"}]}"#, "is unknown; did you mean issuer?"),
        ("/issuers/0/issuer", #"{"issuers":[{"issuer":"a","issuer":"b"}]}"#, "is invalid: "),
    ])
    func `reports an error with its location`(place: String, text: String, reason: String) throws {
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
        ("/organizations", #""jwks_url":"https://a/k","organizations":[]"#, "must contain 1 to 10000 organizations"),
        ("/organizations/1", #""jwks_url":"https://a/k","organizations":["ID","x"]"#, "must be a UUID"),
        ("/organizations/1", #""jwks_url":"https://a/k","organizations":["ID","ID"]"#, "comes twice"),
        ("", #""organizations":"any""#, "must have one of jwks_url, keys_file and secret_file"),
        ("", #""organizations":"any","jwks_url":"https://a/k","keys_file":"/k""#, "must have one of"),
        ("", #""organizations":"any","jwks_url":"https://a/k","user_claim":"org""#, "uses the same claim for"),
        ("", #""organizations":"any","jwks_url":"https://a/k","user_claim":"$['org']""#, "uses the same claim for"),
        ("", #""organizations":"any","organization_keys":"a","organization_claim":"b""#, "must have at most one of"),
        ("/organization", #""organization":"acme""#, "must be a UUID"),
        (
            "/organization", #""organization":"1192f0c1-2345-7abc-8def-0123456789ab","organizations":["ID"]"#,
            "is not among its organizations"
        ),
        (
            "/user_claim", #""user_claim":"$..sub""#,
            "is neither a name nor a path of names and indices: it leads to more than one value"
        ),
        ("/organization_keys", #""organization_keys":"$""#, "is neither a name nor a path of names and indices: it"),
        ("/user_ids", #""user_ids":"external""#, "must be one of either, uuid, mapped"),
        ("/organization_ids", #""organization_ids":"mapped""#, "must be one of either, uuid, external"),
        ("", #""channel_prefix":"team/""#, "must have channel_claim as well"),
        ("/channel_claim", #""channel_claim":"$""#, "is neither a name nor a path of names and indices: it"),
        ("/channel_role", #""channel_claim":"groups","channel_role":"admin""#, "must be one of read, write"),
        ("/namespace", #""namespace":"""#, "must be a text of 1 to 255 bytes"),
        ("/namespace", #""namespace":"a\u0085b""#, "must be a text of 1 to 255 bytes without control characters"),
        ("/audience", #""audience":"a\nb""#, "must be a text of 1 to 1000 bytes without control characters"),
        ("/jwks_url", #""organizations":"any","jwks_url":"ftp://a/k""#, "must start with http:// or https://"),
        ("/jwks_url", #""organizations":"any","jwks_url":"https://u:hushhush@a/k""#, "must not contain a user"),
        ("/keys_file", #""organizations":"any","keys_file":"/nowhere""#, "names a file that cannot be read"),
        ("/secret_file", #""organizations":"any","secret_file":"/nowhere""#, "names a file that cannot be read"),
        ("/secret_file", #""organizations":"any","secret_file":"/etc/hostname""#, "names a "),
        ("/secret", #""organizations":"any","secret":"hushhush""#, "is unknown; did you mean secret_file?"),
    ])
    func `reports an invalid issuer with its location`(place: String, members: String, reason: String) throws {
        let members = #""issuer":"https://a","# + members.replacingOccurrences(of: "ID", with: Self.id)
        let problem = try problem(one(members))
        let start = "SLUICE_JWT_ISSUERS_FILE names FILE, in which /issuers/0\(place) \(reason)"
        #expect(problem.hasPrefix(start), "\(problem)")
        #expect(!problem.contains("hushhush"))
    }

    @Test func `rejects an issuer that appears twice`() throws {
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
                == "SLUICE_JWT_ISSUERS_FILE names FILE, in which /issuers/0/issuer is already configured by "
                + "SLUICE_JWT_ISSUER."
        )
    }

    @Test(arguments: [
        ("", "JSON: There is no JSON value."), ("[]", "a JSON object."),
        ("issuers:", "JSON: A value was expected at line 1, column 1."),
        (
            "{\"issuers\": [\n  {\"issuer\": \"é\" 7}]}",
            "JSON: A comma or the end of the array or object was expected at line 2, column 18."
        ),
    ])
    func `rejects a file that is not an object`(text: String, reason: String) throws {
        #expect(try problem(text) == "SLUICE_JWT_ISSUERS_FILE names FILE, which is not \(reason)")
    }

    @Test func `rejects a missing file`() throws {
        do throws(ConfigurationError) {
            let settings = try Settings.load(configFile: nil, environment: ["SLUICE_JWT_ISSUERS_FILE": "/nowhere"])
            _ = try settings.tokenConfiguration()
            Issue.record("a missing file was read")
        } catch {
            #expect(error.description == "SLUICE_JWT_ISSUERS_FILE names /nowhere, which cannot be read.")
        }
    }

    @Test(arguments: [
        "ftp://id.example/keys", "id.example/keys", "https://", "https://u:hushhush@id.example/keys",
        "https://id.example/keys#1", "https://id.example/ keys", "https://id.example:0/keys", "file:///etc/passwd",
    ])
    func `a URL of keys requires HTTP without credentials`(text: String) throws {
        let found = try problems(["SLUICE_JWT_JWKS_URL": text])
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("SLUICE_JWT_JWKS_URL must be a URL such as ") == true)
        #expect(found.first?.contains("hushhush") == false)
    }

    @Test(arguments: [
        "https://id.example/keys?p=1&t=a%20b", "http://localhost:8080/k", "https://[::1]:1/a/b", "https://id",
    ])
    func `accepts other URLs and does not show their queries`(text: String) throws {
        let settings = try load(["SLUICE_JWT_JWKS_URL": text])
        #expect(settings.jwtJWKSURL == text)
        #expect(settings.warnings == [])
        let shown = settings.inForce.first { $0.name == "jwt_jwks_url" }?.value
        #expect(shown == String(text.prefix { $0 != "?" }))
    }

    @Test func `warns about keys fetched without TLS`() throws {
        #expect(try load(["SLUICE_JWT_JWKS_URL": "http://id.example/keys"]).warnings.count == 1)
    }
}
