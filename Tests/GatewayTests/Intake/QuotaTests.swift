import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import OperatorsFeature
import SyncModel
import TestSupport
import Testing

/// Quotas as callers and operators observe them.
@Suite(.timeLimit(.minutes(10))) struct QuotaTests {
    @Test func `returns configured quotas and removes them with null`() async throws {
        let fixture = try await TwoTenantFixture()
        let plain = try await fixture.operate(.GET, fixture.admin)
        #expect(plain.json?.value(at: "/settings/requests_per_second")?.isNull == true)
        #expect(plain.json?.value(at: "/settings/mutations_per_day_per_user")?.isNull == true)
        let body = #"{"settings":{"requests_per_second":50,"mutations_per_day_per_user":2000}}"#
        let set = try await fixture.operate(.PUT, fixture.admin, body)
        #expect(set.json?.value(at: "/settings/requests_per_second")?.int64 == 50)
        #expect(set.json?.value(at: "/settings/mutations_per_day_per_user")?.int64 == 2_000)
        let less = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"requests_per_second":null}}"#)
        #expect(less.json?.value(at: "/settings/requests_per_second")?.isNull == true)
        #expect(less.json?.value(at: "/settings/mutations_per_day_per_user")?.int64 == 2_000)
    }

    @Test(arguments: [
        ("requests_per_second", "0"), ("requests_per_second", "1000001"), ("requests_per_second", "1.5"),
        ("requests_per_second", #""5""#), ("mutations_per_day_per_user", "0"), ("mutations_per_day_per_user", "-1"),
        ("mutations_per_day_per_user", "1000000001"), ("mutations_per_day_per_user", "true"),
    ])
    func `rejects quotas outside their bounds and names them`(name: String, value: String) async throws {
        let fixture = try await TwoTenantFixture()
        let reply = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"\#(name)":\#(value)}}"#)
        expectProblem(reply, .validationFailed, errors: ["/settings/\(name) member_range"])
    }

    @Test func `an organization without a quota gets no rate limit headers`() async throws {
        let fixture = try await TwoTenantFixture(#"{"requests_per_second":5}"#)
        for _ in 0..<20 {
            let reply = try await fixture.eve.get("/v1/changes")
            #expect(reply.status == 200)
            #expect(reply.header("RateLimit") == [] && reply.header("RateLimit-Policy") == [])
        }
    }

    @Test func `every response reports the quota and excess requests are rejected`() async throws {
        let fixture = try await TwoTenantFixture(#"{"requests_per_second":5,"mutations_per_day_per_user":3}"#)
        let policy = [#""requests";q=5;w=1, "mutations";q=3;w=86400;qu="mutations""#]
        let first = try await fixture.ada.get("/v1/backlog")
        #expect(first.status == 200)
        #expect(first.header("RateLimit-Policy") == policy)
        #expect(first.header("RateLimit") == [#""requests";r=4;t=1"#])
        let pushed = try await fixture.bob.push([fixture.bob.create(), fixture.bob.create()])
        #expect(pushed.status == 200)
        #expect(pushed.header("RateLimit") == [#""requests";r=3;t=1, "mutations";r=1;t=57600"#])
        // errors report the quota as well
        let wrong = try await fixture.ada.get("/v1/changes?limit=0")
        expectProblem(wrong, .invalidRequest)
        #expect(wrong.header("RateLimit") == [#""requests";r=2;t=1"#])
        #expect(wrong.header("RateLimit-Policy") == policy)
        // a request with an invalid token gets no quota headers and is not counted
        let stranger = try await send(.GET, fixture.gateway.address + "/v1/backlog", token: "x.y.z")
        #expect(stranger.status == 401 && stranger.header("RateLimit-Policy") == [])

        let push = [fixture.bob.create(), fixture.bob.create()]
        let over = try await fixture.bob.push(push)
        expectProblem(over, .rateLimited, errors: [])
        #expect(over.status == 429)
        #expect(over.header("Retry-After") == ["28800"])
        #expect(over.header("RateLimit") == [#""requests";r=1;t=1, "mutations";r=1;t=57600"#])
        #expect(try await fixture.ada.get("/v1/backlog").header("RateLimit") == [#""requests";r=0;t=1"#])
        for worker in [fixture.ada, fixture.bob] {
            let refused = try await worker.get("/v1/changes?wait=60")
            expectProblem(refused, .rateLimited, errors: [])
            #expect(refused.header("Retry-After") == ["1"])
            #expect(refused.header("RateLimit") == [#""requests";r=0;t=1"#])
            #expect(refused.header("RateLimit-Policy") == policy)
        }
        // other organizations are not delayed
        #expect(try await fixture.eve.get("/v1/backlog").status == 200)
        let metrics = try await fixture.metrics()
        #expect(metrics.contains(#"sluice_requests_limited_total{quota="organization"} 2"#))
        #expect(metrics.contains(#"sluice_requests_limited_total{quota="user"} 1"#))

        fixture.gateway.clock.advance(seconds: 28_800)
        let later = try await SyncWorker(
            fixture.gateway,
            organization: fixture.bob.organization,
            user: fixture.bob.user
        )
        #expect(try await later.push(push).status == 200)
        _ = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"mutations_per_day_per_user":null}}"#)
        let after = try await later.push([fixture.bob.create()])
        #expect(after.status == 200)
        #expect(after.header("RateLimit-Policy") == [#""requests";q=5;w=1"#])
    }

    @Test func `a push rejected for another reason reports the quota of mutations`() async throws {
        let fixture = try await TwoTenantFixture(#"{"mutations_per_day_per_user":5}"#)
        _ = try await fixture.bob.push([fixture.bob.create()])
        let broken = fixture.bob.draft("create", "task", ["max_attempts": "0"])
        let refused = try await fixture.bob.push([broken], prefer: "handling=strict")
        expectProblem(refused, .validationFailed)
        #expect(refused.header("RateLimit") == [#""mutations";r=4;t=17280"#])
        #expect(!(try await fixture.metrics()).contains(#"sluice_requests_limited_total{quota="user"} 1"#))
    }

    @Test func `an event stream counts as one request`() async throws {
        let fixture = try await TwoTenantFixture(#"{"requests_per_second":2}"#)
        let (listener, _) = try await fixture.ada.listen()
        #expect(try await fixture.ada.get("/v1/backlog").status == 200)
        expectProblem(try await fixture.ada.get("/v1/events"), .rateLimited, errors: [])
        fixture.gateway.clock.advance(seconds: 1)
        _ = try await fixture.bob.push([fixture.bob.create()])
        #expect(try await listener.next()?.event == "changes")
    }

    /// Two processes receive requests at full speed for some seconds. The limit is rate · T, plus a burst, plus the
    /// reserved portions of both.
    @Test func `two gateways together enforce a rate`() async throws {
        let rate = 40
        let database = try await LiveGateway.migratedDatabase()
        let gateways = [
            try await GatewayProcess.start(database: database.uri),
            try await GatewayProcess.start(database: database.uri),
        ]
        let first = try await SingleWorker(gateways[0])
        let path = "/admin/organizations/\(first.organization.lowercased)"
        let set = try await send(
            .PUT,
            gateways[0].operations + path,
            token: GatewayProcess.operatorToken,
            body: Array(#"{"settings":{"requests_per_second":\#(rate)}}"#.utf8)
        )
        #expect(set.status == 200, "\(set.text)")
        let second = SingleWorker(gateways[1], as: first)
        // the other gateway loads the quota within five seconds on an idle machine
        try await waitUntil("the other gateway has loaded the quota", every: .milliseconds(50)) {
            try await !second.get("/v1/backlog").header("RateLimit-Policy").isEmpty
        }
        let start = ContinuousClock.now
        let times = try await withThrowingTaskGroup(of: [Duration].self) { group in
            for worker in [first, second, first, second] {
                group.addTask {
                    var admitted: [Duration] = []
                    while .now - start < .seconds(5) {
                        let asked = ContinuousClock.now - start
                        let reply = try await worker.get("/v1/backlog")
                        // if the bucket is not updated in time, requests are rejected, which does not exceed the bound
                        if reply.status == 200 {
                            admitted.append(asked)
                        } else {
                            #expect([429, 503].contains(reply.status))
                        }
                    }
                    return admitted
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        let seconds = Double((ContinuousClock.now - start) / .milliseconds(1)) / 1_000
        let bound = Double(rate) * seconds + Double(rate) + 2 * Double(rate / 4)
        #expect(Double(times.count) <= bound, "\(times.count) in \(seconds) s")
        #expect(!times.isEmpty)
        for gateway in gateways { #expect(try await gateway.terminate() == 0) }
    }
}
