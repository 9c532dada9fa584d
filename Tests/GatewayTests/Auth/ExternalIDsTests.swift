import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// `external_ids` of `/admin/organizations/{id}`.
@Suite(.timeLimit(.minutes(10))) struct ExternalIDsTests {
    private static let (north, south) = (TwoProviders.north, TwoProviders.south)

    private static func body(_ names: [(issuer: String, id: String)]) -> String {
        let names = names.map { #"{"issuer":"\#($0.issuer)","external_id":"\#($0.id)"}"# }
        return #"{"external_ids":[\#(names.joined(separator: ","))]}"#
    }

    @Test func `replaces external ids as a whole, sorts them and admits their tokens immediately`() async throws {
        let stage = try await TwoProviders()
        let token = try stage.token(Self.north, #""sub":"ada","org":"org_9ybsU1dN2dKfDkBi""#)
        expectProblem(try await stage.get("/v1/mutations", token), .organizationUnknown, errors: [])
        let path = "/admin/organizations/\(stage.tenants.north.lowercased)"
        let before = try await stage.operate(.GET, path)
        #expect(before.json?["external_ids"]?.text == "[]")

        let set = try await stage.operate(
            .PUT,
            path,
            Self.body([
                (Self.south, "acme"), (Self.north, "org_9ybsU1dN2dKfDkBi"), (Self.north, "Acme"), ("", "ø\u{301}"),
            ])
        )
        #expect(set.status == 200)
        let shown = set.json?["external_ids"]?.elements?.map { ($0["issuer"]?.string, $0["external_id"]?.string) }
        #expect(shown?.map(\.0) == ["", Self.north, Self.north, Self.south])
        #expect(shown?.map(\.1) == ["ø\u{301}", "Acme", "org_9ybsU1dN2dKfDkBi", "acme"])
        #expect(try await stage.operate(.GET, path).text == set.text)
        #expect(try await stage.operate(.GET, "/admin/organizations").text.contains(set.text))
        // the external id was unknown before, and is known immediately
        let pushed = try await stage.push(token)
        #expect(try await stage.mutations(token) == [pushed])

        #expect(
            try await stage.operate(.PUT, path, #"{"name":"Acme"}"#).json?["external_ids"]?.elements.map {
                Array($0).count
            } == 4
        )
        let fewer = try await stage.operate(.PUT, path, Self.body([(Self.north, "Acme")]))
        #expect(fewer.json?["external_ids"]?.elements.map { Array($0).count } == 1)
        expectProblem(try await stage.get("/v1/mutations", token), .organizationUnknown, errors: [])
        #expect(try await stage.operate(.PUT, path, #"{"external_ids":[]}"#).json?["external_ids"]?.text == "[]")
    }

    @Test func `rejects an external id of another organization by pointer`() async throws {
        let stage = try await TwoProviders()
        let (north, shared) = (
            "/admin/organizations/\(stage.tenants.north.lowercased)",
            "/admin/organizations/\(stage.tenants.shared.lowercased)"
        )
        #expect(try await stage.operate(.PUT, north, Self.body([(Self.north, "acme")])).status == 200)
        let kept = try await stage.operate(.PUT, shared, Self.body([(Self.south, "acme"), (Self.north, "ACME")]))
        #expect(kept.status == 200, "the same name of another issuer, and a name with other bytes, are free")
        for path in [shared, "/admin/organizations/\(UUID().lowercased)"] {
            let body = Self.body([(Self.north, "fjord"), (Self.north, "acme")])
            let reply = try await stage.operate(.PUT, path, body)
            expectProblem(reply, .externalIDTaken, errors: ["/external_ids/1 external_id_taken"])
            #expect(reply.json?["detail"]?.string?.contains(stage.tenants.north.lowercased) == true)
            #expect(
                try await stage.operate(.GET, path).status == (path == shared ? 200 : 404),
                "no organization was created"
            )
        }
        #expect(try await stage.operate(.GET, shared).text == kept.text)
        // once one organization has removed it, the other can use it
        #expect(try await stage.operate(.PUT, north, Self.body([])).status == 200)
        #expect(try await stage.operate(.PUT, shared, Self.body([(Self.north, "acme")])).status == 200)
        // a purge releases external ids as well
        #expect(try await stage.operate(.DELETE, shared).status == 204)
        #expect(try await stage.operate(.PUT, north, Self.body([(Self.north, "acme")])).status == 200)
    }

    @Test func `after concurrent swaps, each external id has one organization`() async throws {
        let stage = try await TwoProviders()
        let paths = [stage.tenants.north, stage.tenants.shared].map { "/admin/organizations/\($0.lowercased)" }
        for round in 0..<10 {
            let names = (0..<4).map { "name-\(($0 + round) % 4)" }
            let lists = [names, names.reversed()]
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for (path, names) in zip(paths, lists) {
                    group.addTask {
                        try await stage.operate(.PUT, path, Self.body(names.map { (Self.north, $0) })).status
                    }
                }
                return try await group.reduce(into: [Int]()) { $0.append($1) }
            }
            #expect(statuses.sorted() == [200, 409])
            for path in paths { #expect(try await stage.operate(.PUT, path, Self.body([])).status == 200) }
        }
    }

    @Test func `names invalid external ids by pointer and changes nothing`() async throws {
        let fixture = try await TwoTenantFixture()
        let (long, longIssuer) = (String(repeating: "é", count: 128), String(repeating: "x", count: 1_001))
        let many = Self.body((0...100).map { ("i", "n\($0)") })
        let cases: [(String, [String])] = [
            (#"{"external_ids":null}"#, ["/external_ids member_type"]),
            (#"{"external_ids":{}}"#, ["/external_ids member_type"]),
            (#"{"external_ids":["acme"]}"#, ["/external_ids/0 member_type"]),
            (#"{"external_ids":[{}]}"#, ["/external_ids/0/issuer member_required"]),
            (#"{"external_ids":[{"issuer":"i"}]}"#, ["/external_ids/0/external_id member_required"]),
            (
                #"{"external_ids":[{"issuer":1,"external_id":2,"x":3}]}"#,
                [
                    "/external_ids/0/issuer member_range", "/external_ids/0/external_id member_range",
                    "/external_ids/0/x member_unknown",
                ]
            ),
            (Self.body([("i", "")]), ["/external_ids/0/external_id member_range"]),
            (Self.body([("i", #"a\n"#)]), ["/external_ids/0/external_id member_range"]),
            (Self.body([("i", #"\u0085"#)]), ["/external_ids/0/external_id member_range"]),
            (Self.body([(#"i\u007f"#, "a")]), ["/external_ids/0/issuer member_range"]),
            (Self.body([("i", long)]), ["/external_ids/0/external_id member_range"]),
            (Self.body([(longIssuer, "a")]), ["/external_ids/0/issuer member_range"]),
            (Self.body([("i", "a"), ("i", "b"), ("i", "a")]), ["/external_ids/2 member_duplicate"]),
            (many, ["/external_ids member_range"]),
        ]
        try await fixture.whileNothingChanges {
            for (body, errors) in cases {
                expectProblem(try await fixture.operate(.PUT, fixture.admin, body), .validationFailed, errors: errors)
            }
        }
        let most = Self.body((0..<100).map { ("i", "n\($0)") })
        #expect(try await fixture.operate(.PUT, fixture.admin, most).status == 200)
        let longest = Self.body([("i", String(repeating: "é", count: 127) + "x")])
        #expect(try await fixture.operate(.PUT, fixture.admin, longest).status == 200)
    }

    @Test func `the command adds, removes and lists external ids`() async throws {
        let fixture = try await TwoTenantFixture()
        let (mine, other) = (fixture.ada.organization.lowercased, fixture.eve.organization.lowercased)
        var environment = ["SLUICE_DATABASE_URL": fixture.gateway.database.uri]
        func run(_ words: String...) async throws -> (status: Int32, output: String, complaint: String) {
            let result = try await Program.run(["organizations", "external-ids"] + words, environment: environment)
            return (result.status, result.output, result.complaint)
        }
        let added = try await run("add", mine, "org_1", "--issuer", "https://acme.eu.auth0.com/")
        #expect(added.status == 0)
        #expect(added.output == "\(mine) has the external id org_1 at https://acme.eu.auth0.com/\n", "\(added)")
        #expect(try await run("add", mine, "org_1", "--issuer", "https://acme.eu.auth0.com/").status == 0)
        #expect(try await run("add", mine, "org_2", "--issuer", "https://acme.eu.auth0.com/").status == 0)
        let taken = try await run("add", other, "org_1", "--issuer", "https://acme.eu.auth0.com/")
        #expect(taken.status == 1 && taken.complaint.contains("is a name of organization \(mine)"), "\(taken)")
        #expect(
            try await run("list", mine).output == "https://acme.eu.auth0.com/ org_1\nhttps://acme.eu.auth0.com/ org_2\n"
        )
        #expect(try await run("list", mine, "--json").output.hasPrefix(#"{"external_ids":[{"issuer":"https://acme"#))
        let removed = try await run("remove", mine, "org_1", "--issuer", "https://acme.eu.auth0.com/")
        #expect(removed.status == 0, "\(removed)")
        #expect(try await run("remove", mine, "org_1", "--issuer", "https://acme.eu.auth0.com/").status == 1)
        #expect(try await run("list", UUID().uuidString).status == 1)
        // the option defaults to the only issuer of the settings
        let unsaid = try await run("add", mine, "org_3")
        #expect(unsaid.status == 64 && unsaid.complaint.contains("--issuer"), "\(unsaid)")
        environment["SLUICE_JWT_SECRET"] = "a secret that only the tests know, of decent length"
        environment["SLUICE_JWT_ISSUER"] = "https://own.example/"
        let defaulted = try await run("add", mine, "org_3")
        #expect(defaulted.output == "\(mine) has the external id org_3 at https://own.example/\n", "\(defaulted)")
        let strange = try await run("add", mine, "org_4", "--issuer", "https://own.example")
        #expect(strange.status == 0 && strange.complaint.contains("the settings contain no issuer"), "\(strange)")
        let bad = try await run("add", mine, "a\u{1b}[31m", "--issuer", "i")
        #expect(bad.status == 64, "\(bad)")
    }
}
