import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import Postgres
import SyncHTTP
import SyncModel
import SyncStore
import TestSupport
import Testing

@testable import AdministrationFeature

/// Encryption at rest, as clients, operators and database tools observe it.
@Suite struct SealingOverHTTPTests {
    static let without = "-\nnobody:" + TestKeys.second.dropFirst("second:".count)

    /// There are two tenants. The first gateway has a key, and a second gateway on the same database has no key.
    @Test func `a gateway without the key reports the missing key and returns no wrong data`() async throws {
        let fixture = try await TwoTenantFixture(masterKeys: TestKeys.first)
        let upstream =
            #"{"base_url":"http://127.0.0.1:1","credential":{"bearer":"geheimnis"},"headers":{"x-k":"geheimnis"}}"#
        let draft = fixture.ada.create("task", #"{"title":"geheimnis"}"#)
        #expect(try await fixture.ada.push([draft]).statuses == ["succeeded"])
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", upstream).status == 201)
        #expect(try await fixture.gateway.database.mentions(of: "geheimnis") == [:])
        #expect(
            try await fixture.operate(.GET, fixture.admin + "/upstream").json?.value(at: "/credential/bearer")?.bool
                == true
        )
        #expect(try await fixture.bob.get("/v1/changes").changes.first?["document"]?["title"]?.string == "geheimnis")
        let list = try await fixture.operate(.GET, fixture.admin + "/mutations")
        #expect(list.text.contains("geheimnis"))
        #expect(try await fixture.operate(.GET, "/readyz").status == 200)

        let blind = try await LiveGateway.start(on: fixture.gateway.database, masterKeys: Self.without)
        let before = try await fixture.tables()
        for (method, path, body) in [
            (HTTPMethod.GET, "/v1/changes", nil), (.GET, "/v1/mutations/\(draft.id)", nil),
            (.GET, "/v1/mutations", nil),
            (.GET, "/v1/events", nil), (.POST, "/v1/mutations", fixture.ada.envelope([fixture.ada.create()])),
            (.POST, "/v1/mutations/preview", fixture.ada.envelope([fixture.ada.create()])),
            (.POST, "/v1/mutations/\(draft.id)/retry", "{}"),
        ] {
            let body = body.map { Array($0.utf8) }
            let reply = try await send(method, blind.address + path, token: fixture.ada.token, body: body)
            #expect(reply.status == 503, "\(path): \(reply.text)")
            #expect(reply.json?["code"]?.string == "store_unavailable", "\(path): \(reply.text)")
            #expect(!reply.text.contains("sluice-sealed") && !reply.text.contains("geheimnis"))
        }
        for path in ["/upstream", "/mutations"] {
            let reply = try await send(.GET, blind.operations + fixture.admin + path, token: LiveGateway.operatorToken)
            #expect(reply.status == 503, "\(path): \(reply.text)")
        }
        let ready = try await send(.GET, blind.operations + "/readyz")
        #expect(ready.status == 503)
        #expect(ready.text.contains("which is not configured") && ready.text.contains("first:"), "\(ready.text)")
        #expect(try await fixture.tables() == before)
        #expect(try await fixture.ada.push([draft]).results.first?["replayed"]?.bool == true)
    }

    @Test func `commands without the key report the missing key`() async throws {
        let fixture = try await TwoTenantFixture(masterKeys: TestKeys.first)
        #expect(try await fixture.ada.push([fixture.ada.create("task", "{}")]).statuses == ["succeeded"])
        let file = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
        defer { try? FileManager.default.removeItem(atPath: file) }
        func run(_ arguments: [String], _ keys: String?) async throws -> Program.Result {
            var environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri]
            if let keys {
                try (keys + "\n").write(toFile: file, atomically: true, encoding: .utf8)
                environment["SLUICE_MASTER_KEY_FILE"] = file
            }
            return try await Program.run(arguments, environment: environment)
        }
        let organization = fixture.ada.organization.lowercased
        let lines = file + ".ndjson"
        try #"{"entity_type":"contact","id":"1","occurred_at":"2026-11-20T07:00:00Z","document":{}}"#
            .write(toFile: lines, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(atPath: lines) }
        let commands = [
            ["export", "--organization", organization],
            ["users", "export", fixture.ada.user.lowercased, "--organization", organization],
        ]
        for keys in [nil, TestKeys.second, TestKeys.impostor] {
            var all = commands
            all += keys == nil ? [["keys", "rewrap"]] : [["keys", "seal"]]
            all.append(["keys", "renew", "--organization", organization])
            all.append(["import", "--organization", organization, lines])
            for command in all {
                let result = try await run(command, keys)
                #expect(result.status == 78, "\(result.complaint)")
                #expect(result.complaint.contains("SLUICE_MASTER_KEY_FILE"), "\(result.complaint)")
            }
            let doctor = try await run(["doctor"], keys)
            #expect(doctor.output.contains("failed   master keys: 1 data keys are wrapped by master key first:"))
        }
        for command in commands { #expect(try await run(command, TestKeys.first).status == 0) }
        #expect(try await run(["doctor"], TestKeys.first).output.contains("ok       master keys: unwrap all 1 data"))
    }

    @Test func `user keys require a master key`() async throws {
        let settings = #"{"settings":{"user_keys":true}}"#
        let plain = try await TwoTenantFixture(masterKeys: Self.without)
        let refused = try await plain.operate(.PUT, plain.admin, settings)
        #expect(refused.status == 422)
        #expect(refused.json?.value(at: "/errors/0/pointer")?.string == "/settings/user_keys")
        let wrong = try await plain.operate(.PUT, plain.admin, #"{"settings":{"user_keys":"yes"}}"#)
        #expect(wrong.json?.value(at: "/errors/0/rule")?.string == "member_range")
        let off = try await plain.operate(.PUT, plain.admin, #"{"settings":{"user_keys":false}}"#)
        #expect(off.json?.value(at: "/settings/user_keys")?.bool == false)

        let sealed = try await TwoTenantFixture(masterKeys: TestKeys.first)
        let on = try await sealed.operate(.PUT, sealed.admin, settings)
        #expect(on.status == 200 && on.json?.value(at: "/settings/user_keys")?.bool == true)
        #expect(try await sealed.ada.push([sealed.ada.create("task", #"{"title":"x"}"#)]).statuses == ["succeeded"])
        #expect(try await sealed.lines("SELECT made_for::text FROM user_keys") == [sealed.ada.user.lowercased])
        let reset = try await sealed.operate(.PUT, sealed.admin, #"{"settings":{"user_keys":null}}"#)
        #expect(reset.json?.value(at: "/settings/user_keys")?.bool == false)
    }

    @Test func `a missing key of one organization does not affect others`() async throws {
        let fixture = try await TwoTenantFixture(masterKeys: TestKeys.first)
        #expect(try await fixture.ada.push([fixture.ada.create()]).statuses == ["succeeded"])
        let other = try await LiveGateway.start(on: fixture.gateway.database, masterKeys: TestKeys.second)
        let organization = UUID()
        _ = try await other.store.administration.put(
            organization,
            OrganizationUpdate(body: Array(#"{"name":"T"}"#.utf8))
        )
        let worker = try await SyncWorker(other, organization: organization)
        #expect(try await worker.push([worker.create()]).statuses == ["succeeded"])
        let ready = try await send(.GET, other.operations + "/readyz")
        #expect(ready.status == 200)
        let notices = ready.json?["notices"]?.elements?.compactMap(\.string) ?? []
        #expect(notices.count == 1 && notices[0].contains("first:"), "\(ready.text)")
        let refused = try await send(.GET, other.address + "/v1/mutations", token: fixture.ada.token)
        #expect(refused.status == 503)
    }

    @Test func `the commands create, list, rewrap, rotate and seal keys`() async throws {
        let database = try await LiveGateway.migratedDatabase()
        let line = try await Program.run(["keys", "create", "main"])
        #expect(line.status == 0 && (try? MasterKeys(parsing: line.output))?.wrapping?.name == "main")
        #expect(try await Program.run(["keys", "create", "No Name"]).status == 64)

        let plain = try await LiveGateway.start(on: database, masterKeys: Self.without)
        let organization = UUID()
        _ = try await plain.store.administration.put(
            organization,
            OrganizationUpdate(body: Array(#"{"name":"T"}"#.utf8))
        )
        let worker = try await SyncWorker(plain, organization: organization)
        #expect(try await worker.push([worker.create("task", #"{"title":"geheimnis"}"#)]).statuses == ["succeeded"])

        let file = try TemporaryFile(TestKeys.first)
        let environment = ["SLUICE_DATABASE_URL": database.uri, "SLUICE_MASTER_KEY_FILE": file.path]
        let none = try await Program.run(["keys", "list"], environment: environment)
        #expect(none.status == 0 && none.output == "" && none.complaint.contains("no data keys"))
        let renewed = try await Program.run(
            ["keys", "renew", "--organization", organization.lowercased],
            environment: environment
        )
        #expect(renewed.output == "\(organization.lowercased) has data key 1\n", "\(renewed.complaint)")
        let unknown = try await Program.run(
            ["keys", "renew", "--organization", UUID().lowercased],
            environment: environment
        )
        #expect(unknown.status == 1 && unknown.complaint.contains("no organization has the id"))
        let connection = try await database.connect()
        try await connection.execute(script: "UPDATE organization_keys SET created_at = '2000-01-01'")
        await connection.closeAndWait()
        let sealed = try await Program.run(["keys", "seal"], environment: environment)
        #expect(sealed.status == 0 && sealed.output.contains("2 rows examined, 2 encrypted, 0"), "\(sealed.output)")
        #expect(try await database.mentions(of: "geheimnis") == [:])
        let listed = try await Program.run(["keys", "list", "--json"], environment: environment)
        #expect(listed.output.contains(#""number":1,"master_key":"first:"#), "\(listed.output)")

        let other = try TemporaryFile(TestKeys.second + "\n" + TestKeys.first)
        let rewrapped = try await Program.run(
            ["keys", "rewrap"],
            environment: environment.merging(["SLUICE_MASTER_KEY_FILE": other.path]) { $1 }
        )
        #expect(rewrapped.output.hasPrefix("1 data keys rewrapped"), "\(rewrapped.complaint)")
        let blind = try await Program.run(["keys", "rewrap"], environment: environment)
        #expect(blind.status == 78 && blind.complaint.contains("do not remove any key"))
        let without = try await Program.run(["keys", "seal"], environment: ["SLUICE_DATABASE_URL": database.uri])
        #expect(without.status == 78, "\(without.complaint)")
        #expect(try await Program.run(["keys", "--help"]).output.contains("EXAMPLES"))
        for result in [renewed, sealed, listed, rewrapped, blind] {
            let key = TestKeys.first.dropFirst("first:".count)
            #expect(!result.output.contains(key) && !result.complaint.contains(key))
        }
    }
}
