import SyncHTTP
import Testing

@testable import CommandSupport

/// Each kind of invalid setting. The error names the setting and the allowed values.
@Suite struct SettingRefusalTests {
    @Test(arguments: ["", "0", "501", "-1", "+1", " 1", "1 ", "1.0", "1e2", "0x1", "８", "99999999999999999999"])
    func `a whole number consists of digits and is within its range`(text: String) throws {
        let expected =
            text.isEmpty
            ? [] : [#"SLUICE_DATABASE_POOL_SIZE is "\#(text)", but must be a whole number from 1 to 500."#]
        #expect(try problems(["SLUICE_DATABASE_POOL_SIZE": text]) == expected)
    }

    @Test func `accepts the bounds of every range and rejects the next values`() throws {
        for setting in Setting.all {
            guard case .number(let range) = setting.form else { continue }
            for number in [range.lowerBound, range.upperBound] { #expect(setting.form.accepts("\(number)")) }
            for number in [range.lowerBound - 1, range.upperBound + 1] { #expect(!setting.form.accepts("\(number)")) }
        }
    }

    @Test(arguments: [
        "8080", ":8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:http", "::1:8080",
        "[::1]", "[]:8080", "[::1:8080", "127.0.0.1:+80", "http://127.0.0.1:8080", "127.0.0.1:80:80", "a b:80",
    ])
    func `an address requires a host and a port`(text: String) throws {
        #expect(
            try problems(["SLUICE_PUBLIC_ADDRESS": text]) == [
                #"SLUICE_PUBLIC_ADDRESS is "\#(text)", but must be host:port such as 127.0.0.1:8080 or [::1]:8080, "#
                    + "with a port from 0 to 65535."
            ]
        )
    }

    @Test(arguments: ["0.0.0.0:0", "localhost:65535", "[::]:8080", "[fe80::1%eth0]:80", "gateway.internal:8080"])
    func `accepts addresses of every kind`(text: String) throws {
        #expect(try load(["SLUICE_PUBLIC_ADDRESS": text]).publicAddress.description == text)
    }

    @Test(arguments: ["loud", "INFO", "Warning", "warn"])
    func `rejects unknown log levels`(text: String) throws {
        #expect(
            try problems(["SLUICE_LOG_LEVEL": text]) == [
                #"SLUICE_LOG_LEVEL is "\#(text)", but must be one of "#
                    + "trace, debug, info, notice, warning, error, critical."
            ]
        )
    }

    @Test func `rejects unknown log formats`() throws {
        #expect(
            try problems(["SLUICE_LOG_FORMAT": "yaml"]) == [
                #"SLUICE_LOG_FORMAT is "yaml", but must be one of json, text."#
            ]
        )
    }

    @Test(arguments: [
        "sluice", "mysql://db/sluice", "http://hushhush", "postgresql://ada:hush@hush@db/sluice", "hostt=db",
        "postgresql://db/sluice?hush=1", "postgresql://db:port/sluice",
    ])
    func `a database requires a URI or key-value pairs`(text: String) throws {
        let found = try problems(["SLUICE_DATABASE_URL": text])
        #expect(found.count == 1)
        #expect(found.first?.hasPrefix("SLUICE_DATABASE_URL must be a libpq URI such as ") == true)
        #expect(found.first?.contains(text) == (text == "sluice"), "it can contain a password, so it is not shown")
    }

    @Test(arguments: ["postgresql://db/sluice", "postgres://db", "host=/run dbname=sluice", "postgresql:///sluice"])
    func `accepts all of libpq's notations for a database`(text: String) throws {
        #expect(try load(["SLUICE_DATABASE_URL": text]).databaseURL == text)
    }

    @Test func `secrets have a minimum length and are never shown`() throws {
        for (name, rule) in [
            ("JWT_SECRET", "at least 16 bytes "), ("OPERATOR_TOKEN", "up to 16 tokens, separated by spaces "),
        ] {
            let found = try problems(["SLUICE_\(name)": "hushhush"])
            #expect(found.count == 1)
            #expect(found.first?.hasPrefix("SLUICE_\(name) must be \(rule)") == true)
            #expect(found.first?.contains("at least 16 ") == true)
            #expect(found.first?.contains("hushhush") == false)
        }
    }

    @Test(arguments: [
        (["PUBLIC_ADDRESS": "127.0.0.1:8081"], "SLUICE_PUBLIC_ADDRESS and SLUICE_OPERATIONS_ADDRESS must differ."),
        (
            ["MAX_PAYLOAD_BYTES": "4194305"],
            "SLUICE_MAX_PAYLOAD_BYTES must not be more than SLUICE_MAX_BODY_BYTES, 4194304."
        ),
        (
            ["MAX_BODY_BYTES_IN_FLIGHT": "4194303"],
            "SLUICE_MAX_BODY_BYTES_IN_FLIGHT must be at least SLUICE_MAX_BODY_BYTES, 4194304."
        ),
        (["JWT_USER_CLAIM": "org"], "SLUICE_JWT_USER_CLAIM and SLUICE_JWT_ORGANIZATION_CLAIM must differ."),
    ])
    func `names both settings that are inconsistent`(variables: [String: String], problem: String) throws {
        let environment = Dictionary(uniqueKeysWithValues: variables.map { ("SLUICE_" + $0.key, $0.value) })
        #expect(try problems(environment) == [problem])
    }

    @Test func `two addresses chosen by the system do not collide`() throws {
        let address = "127.0.0.1:0"
        let environment = ["SLUICE_PUBLIC_ADDRESS": address, "SLUICE_OPERATIONS_ADDRESS": address]
        #expect(try problems(environment) == [])
    }

    @Test func `reports all problems in the order of the help`() throws {
        let found = try problems(
            ["SLUICE_MAX_CONNECTIONS": "many", "SLUICE_COMMITTERS": "0", "SLUICE_LOG_LEVEL": "loud"],
            file: #"{"database_pool_size": 0}"#
        )
        #expect(
            found.map { String($0.prefix { $0 != " " }) } == [
                #""database_pool_size""#, "SLUICE_COMMITTERS", "SLUICE_LOG_LEVEL", "SLUICE_MAX_CONNECTIONS",
            ]
        )
    }

    // MARK: - Files

    @Test(arguments: [
        ("", "The configuration file FILE is not JSON: There is no JSON value."),
        ("[]", "The configuration file FILE is not a JSON object."),
        ("max_mutations: 1", "The configuration file FILE is not JSON: A value was expected at line 1, column 1."),
        (
            "{\n  \"jwt_issuer\": \"Ærø\" \"x\"\n}",
            "FILE is not JSON: A comma or the end of the array or object was expected at line 2, column 23."
        ),
        (
            #"{"max_mutations": 1"#,
            "The configuration file FILE is not JSON: The text ends too early, at line 1, column 20."
        ),
        (
            #"{"max_mutations": "many"}"#,
            #""max_mutations" in FILE is "many", but must be a whole number from 1 to 10000."#
        ),
        (#"{"max_mutations": 1.5}"#, #""max_mutations" in FILE is "1.5", but must be a whole number from 1 to 10000."#),
        (
            #"{"max_mutations": true}"#,
            #""max_mutations" in FILE must be a text or a number."#
        ),
        (#"{"max_mutations": -1}"#, #""max_mutations" in FILE is "-1", but must be a whole number from 1 to 10000."#),
        (#"{"max_mutations": ""}"#, #""max_mutations" in FILE is "", but must be a whole number from 1 to 10000."#),
        (#"{"max_mutations": null}"#, #""max_mutations" in FILE must be a text or a number."#),
        (#"{"max_mutations": 1e2}"#, #""max_mutations" in FILE is "1e2", but must be a whole number from 1 to 10000."#),
        (#"{"log_level": 3}"#, #""log_level" in FILE is "3", but must be one of "#),
        (
            #"{"jwt_issuer": ""}"#,
            #""jwt_issuer" in FILE is "", but must be a non-empty text without control characters."#
        ),
        (#"{"max_mutations": [1]}"#, #""max_mutations" in FILE must be a text or a number."#),
        (#"{"max_mutations": {"a": 1}}"#, #""max_mutations" in FILE must be a text or a number."#),
    ])
    func `validates a settings file like the environment`(text: String, problem: String) throws {
        let found = try problems([:], file: text)
        #expect(found.count == 1, "\(found)")
        #expect(found.first?.contains(problem) == true, "\(found)")
    }

    @Test func `rejects a setting that a file contains twice`() throws {
        let found = try problems([:], file: #"{"max_mutations": 1, "max_mutations": 2}"#)
        #expect(
            found == [
                "In the configuration file FILE, at /max_mutations: The object has more than one member of this name."
            ]
        )
    }

    @Test func `rejects an unreadable file`() throws {
        do throws(ConfigurationError) {
            _ = try Settings.load(configFile: "/nowhere/sluice.json", environment: [:])
            Issue.record("a missing file was read")
        } catch {
            #expect(error.problems == ["The configuration file /nowhere/sluice.json cannot be read."])
        }
    }
}
