import Foundation
import GatewaySupport
import HTTPTypes
import JSONText
import Logging
import NIOHTTP1
import SyncModel
import SyncStore
import Telemetry
import TestSupport
import Testing
import Tokens

@testable import CommandSupport
@testable import OperatorsFeature
@testable import Sluice
@testable import SyncHTTP
@testable import WebhooksFeature

/// The OpenAPI document is valid and matches the gateway, and its examples are real responses.
@Suite struct OpenAPITests {
    /// Routes that are documented but not served yet.
    static let documentedButNotServedYet: Set<String> = []

    /// Examples of served routes that also use routes that are not served yet.
    static let examplesOfWhatIsNotServedYet: Set<String> = []

    @Test func `the document is public and cacheable`() async throws {
        let gateway = try await LiveGateway.start()
        let url = gateway.address + "/openapi.json"
        let reply = try await send(.GET, url, headers: [("Accept", "text/html")])
        #expect(reply.status == 200)
        #expect(reply.header("content-type") == ["application/json"])
        #expect(reply.header("cache-control") == ["public, max-age=300"])
        #expect(reply.body == (try Contract.bytes()))
        let tag = try #require(reply.header("etag").first)
        for field in [tag, "\"x\", W/\(tag)", "*"] {
            let again = try await send(.GET, url, headers: [("If-None-Match", field)])
            #expect(again.status == 304)
            #expect(again.body.isEmpty)
            #expect(again.header("etag") == [tag])
            #expect(again.header("cache-control") == ["public, max-age=300"])
            #expect(again.header("x-request-id").count == 1)
        }
        #expect(try await send(.GET, url, headers: [("If-None-Match", "\"x\"")]).status == 200)
        #expect(try await send(.HEAD, url).header("etag") == [tag])
        expectProblem(try await send(.POST, url), .methodNotAllowed)
        expectProblem(try await send(.GET, gateway.operations + "/openapi.json"), .notFound)
    }

    @Test func `the document is valid and its examples match its schemas`() async throws {
        try await Contract.run("validate.py", [Contract.path])
    }

    @Test func `the document lists exactly the routes of both servers`() async throws {
        let contract = try Contract()
        let (open, operations) = try await Self.servers()
        let served = Set(open.routes.names)
        #expect(served.isDisjoint(with: Self.documentedButNotServedYet))
        #expect(contract.routes(ofOperations: false) == served.union(Self.documentedButNotServedYet))
        #expect(contract.routes(ofOperations: true) == Set(operations.routes.names))
    }

    @Test func `the document lists every problem code under its status`() throws {
        let contract = try Contract()
        let codes = contract.words(at: "/components/schemas/ProblemCode/enum")
        #expect(codes.sorted() == ProblemCode.allCases.map(\.rawValue).sorted())
        for (status, codes) in contract.problemCodes {
            for code in codes {
                #expect(ProblemCode(rawValue: code)?.status == status, "\(code) under \(status)")
            }
        }
    }

    /// The tables for authors of workers are written manually. They omit three codes that clients never receive: two of
    /// `/admin`, and a reserved code.
    @Test func `the documentation names every problem code and status`() throws {
        let (api, clients) = (try Repository.text("docs/api.md"), try Repository.text("docs/clients.md"))
        for code in ProblemCode.allCases {
            #expect(api.contains("`\(code.rawValue)`"), "\(code.rawValue)")
            guard ![.forbidden, .idSpaceIsImmutable, .externalIDTaken].contains(code) else { continue }
            #expect(clients.contains("`\(code.rawValue)`"), "\(code.rawValue)")
        }
        for status in MutationStatus.allCases {
            #expect(api.contains("`\(status.rawValue)`"), "\(status.rawValue)")
            #expect(clients.contains("`\(status.rawValue)`"), "\(status.rawValue)")
        }
    }

    @Test func `the document lists all statuses and settings`() throws {
        let contract = try Contract()
        let stored = MutationStatus.allCases.filter { $0 != .rejected }.map(\.rawValue)
        #expect(contract.words(at: "/components/schemas/MutationStatus/enum") == stored)
        var writer = JSONWriter()
        OrganizationSettings().write(to: &writer)
        let settings = try JSONTree(parsing: writer.bytes).root
        for schema in ["Settings", "SettingsChange"] {
            let properties = try #require(contract.value(at: "/components/schemas/\(schema)/properties"))
            #expect(properties.names.sorted() == settings.names.sorted())
        }
        #expect(
            contract.words(at: "/components/schemas/Organization/properties/status/enum")
                == OrganizationStatus.allCases.map(\.rawValue)
        )
    }

    @Test func `the document contains every webhook message`() throws {
        let hooks = try #require(try Contract().value(at: "/webhooks"))
        #expect(hooks.names.sorted() == WebhookEvent.allCases.map(\.rawValue).sorted())
        let delivery = WebhookDelivery(
            id: UUID(),
            event: .test,
            data: Array("{}".utf8),
            occurredAt: Timestamp(microseconds: 0),
            sequence: 1,
            attemptCount: 0,
            triedSince: Timestamp(microseconds: 0)
        )
        let reported = try JSONTree(parsing: delivery.body(of: UUID())).root
        let members = try Contract().value(at: "/components/schemas/WebhookMessage/properties")
        #expect(members?.names == reported.names)
    }

    /// `RECORD_EXAMPLES=1` writes the responses into the document instead, for a review before the commit.
    @Test func `each example matches the gateway's real response`() async throws {
        let contract = try Contract()
        let jwks = contract.value(at: "/paths/~1.well-known~1jwks.json/get/responses/200/content/application~1json")
        let keys = jwks?.value(at: "/examples/keys/value")
        let gateway = try await LiveGateway.start { configuration in
            configuration.version = "0.1.0"
            configuration.commit = "4d477c00a1b2c3d4e5f60718293a4b5c6d7e8f90"
            configuration.canSign = true
            configuration.maximumStream = .seconds(1)
            configuration.joinSettling = 0
            if let keys { configuration.jwks = Array(keys.raw) }
        }
        try await waitUntil("the gateway is among the replicas") {
            let now = try await send(.GET, gateway.operations + "/admin/now", token: LiveGateway.operatorToken)
            return now.json?.value(at: "/replicas/0") != nil
        }
        let (organization, user) = (try contract.exampleOrganization(), try contract.exampleUser())
        let token = try await gateway.token(organization: organization, user: user)
        let skipped = Self.notServedYet.flatMap { ["--skip", $0] }
        let recording = ProcessInfo.processInfo.environment["RECORD_EXAMPLES"] == nil ? [] : ["--record"]
        try await Contract.run(
            "examples.py",
            [Contract.path, "--public", gateway.address, "--operations", gateway.operations] + skipped + recording,
            environment: ["SLUICE_USER_TOKEN": token, "SLUICE_OPERATOR_TOKEN": LiveGateway.operatorToken]
        )
    }

    @Test func `a client generated from the document works`() async throws {
        let fixture = try await TwoTenantFixture()
        try await Contract.run(
            "client.py",
            ["--public", fixture.gateway.address],
            environment: ["SLUICE_USER_TOKEN": fixture.ada.token]
        )
    }

    @Test func `pushes validate every member of an entry like its schema`() async throws {
        let fixture = try await TwoTenantFixture()
        try await Contract.run(
            "entries.py",
            [Contract.path, "--public", fixture.gateway.address],
            environment: ["SLUICE_USER_TOKEN": fixture.ada.token]
        )
    }

    /// Searches for differences between the document and the gateway. `FUZZ_SEED` and `FUZZ_EXAMPLES` vary and extend
    /// the search.
    @Test(arguments: ["public", "operations"])
    func `schemathesis finds no difference`(_ listener: String) async throws {
        let contract = try Contract()
        let gateway = try await LiveGateway.start(forwards: true) { configuration in
            configuration.canSign = true
            // a generated request with a wait of a minute must not take that long
            configuration.maximumWait = .milliseconds(50)
            configuration.maximumStream = .milliseconds(50)
            configuration.joinSettling = 0
            configuration.joinTimeout = .milliseconds(50)
        }
        let other = UUID()
        let (organization, user) = (try contract.exampleOrganization(), try contract.exampleUser())
        let skipped = Self.notServedYet.flatMap { ["--skip", $0] }
        try await Contract.run(
            "fuzz.py",
            [Contract.path, listener, "--public", gateway.address, "--operations", gateway.operations] + skipped,
            environment: [
                "SLUICE_USER_TOKEN": try await gateway.token(organization: organization, user: user),
                "SLUICE_OTHER_ORGANIZATION": other.lowercased,
                "SLUICE_OTHER_TOKEN": try await gateway.token(organization: other, user: UUID()),
                "SLUICE_OPERATOR_TOKEN": LiveGateway.operatorToken,
            ],
            within: .seconds(1_800)
        )
    }

    private static var notServedYet: [String] {
        documentedButNotServedYet.union(examplesOfWhatIsNotServedYet).sorted()
    }

    /// Returns the servers with all of their routes, without starting them.
    private static func servers() async throws -> (PublicServer, OperationsServer) {
        _ = GatewayMetrics.bootstrap
        let logger = Logger(label: "routes") { _ in SwiftLogNoOpLogHandler() }
        let now: TimeSource = { Timestamp(microseconds: 0) }
        var configuration = HTTPConfiguration(now: now)
        configuration.operatorTokens = OperatorTokens(parsing: LiveGateway.operatorToken)
        let store = Store(StoreConfiguration(databaseURL: "postgresql:///"), now: now, logger: logger)
        let registry = PrometheusRegistry()
        let gateway = GatewayContext(store: store, configuration: configuration, registry: registry, logger: logger)
        let features = Assembly.features.map { $0.init(gateway) }
        return (
            PublicServer(
                gateway,
                verifier: try await TokenVerifier(configuration: LiveGateway.tokens),
                features: features
            ),
            OperationsServer(gateway, features: features)
        )
    }
}
