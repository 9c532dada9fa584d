import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncModel
import Testing

/// `GET /v1/mutations/{id}`
@Suite struct ReadingMutationsTests {
    static let members =
        PushOverHTTPTests.resultMembers.filter { $0 != "replayed" } + [
            "user_id", "device_id", "operation", "entity_type", "endpoint", "payload", "headers", "dependency_ids",
            "priority", "max_attempts", "conflict_resolution", "base_version", "last_error", "last_error_code",
            "created_at", "accepted_at", "synced_at", "stale", "order_key",
        ]

    @Test func `returns a mutation with every member of its result and its draft`() async throws {
        let fixture = try await TwoTenantFixture()
        let first = fixture.ada.create("contact")
        var draft = fixture.ada.create("activity", #"{"title" : "Visit","amount":1.50}"#)
        draft["endpoint"] = #""/api/v1/activities""#
        draft["headers"] = #"{"accept-language":"nb"}"#
        draft["dependency_ids"] = "[\(first["id"] ?? "")]"
        draft["max_attempts"] = "3"
        draft["order_key"] = #""visit 7""#
        draft["conflict_resolution"] = #""client_wins""#
        let pushed = try await fixture.ada.push([first, draft])
        let reply = try await fixture.ada.get("/v1/mutations/\(draft.id)")
        #expect(reply.status == 200)
        #expect(reply.header("content-type") == ["application/json"])
        let mutation = try #require(reply.json)
        #expect(mutation.names == Self.members)
        for name in PushOverHTTPTests.resultMembers where name != "replayed" {
            #expect(mutation.value(at: "/" + name)?.text == pushed.results[1].value(at: "/" + name)?.text, "\(name)")
        }
        for name in [
            "operation", "entity_type", "endpoint", "payload", "headers", "dependency_ids", "max_attempts",
            "conflict_resolution", "created_at",
        ] {
            #expect(mutation.value(at: "/" + name)?.text == draft[name], "\(name)")
        }
        #expect(mutation["user_id"]?.string == fixture.ada.user.lowercased)
        #expect(mutation["device_id"]?.string == fixture.ada.device.lowercased)
        #expect(mutation["priority"]?.int64 == 10, "the default priority of the type")
        #expect(mutation["base_version"]?.isNull == true)
        #expect(mutation["last_error"]?.isNull == true)
        #expect(mutation["last_error_code"]?.isNull == true)
        #expect(mutation["accepted_at"]?.string == fixture.gateway.clock.now.rfc3339)
        #expect(mutation["synced_at"]?.string == fixture.gateway.clock.now.rfc3339)
        #expect(mutation["stale"]?.bool == false)
        #expect(mutation["order_key"]?.string == "visit 7")
    }

    @Test func `returns a failure with its code and without a time of success`() async throws {
        let fixture = try await TwoTenantFixture()
        let draft = fixture.ada.change(server: UUID().lowercased)
        #expect(try await fixture.ada.push([draft]).statuses == ["failed"])
        let mutation = try #require(try await fixture.ada.get("/v1/mutations/\(draft.id)").json)
        #expect(mutation.names == Self.members)
        #expect(mutation["status"]?.string == "failed")
        #expect(mutation.errorCode == "upstream_rejected")
        #expect(mutation.value(at: "/response/status")?.int64 == 404)
        #expect(mutation["last_error_code"]?.int64 == 404)
        #expect(mutation["last_error"]?.string?.isEmpty == false)
        #expect(mutation["synced_at"]?.isNull == true)
    }

    @Test func `a mutation becomes stale after the organization's number of days`() async throws {
        let fixture = try await TwoTenantFixture(#"{"stale_after_days":2}"#)
        let now = fixture.gateway.clock.now
        let drafts = [-172_800.0, -172_800.001, -10].map { age in
            var draft = fixture.ada.create()
            draft["created_at"] = #""\#(now.adding(seconds: age).rfc3339)""#
            return draft
        }
        _ = try await fixture.ada.push(drafts)
        #expect(try await fixture.ada.get("/v1/mutations").mutations.map { $0["stale"]?.bool } == [false, true, false])
        _ = try await fixture.operate(.PUT, fixture.admin, #"{"settings":{"stale_after_days":3}}"#)
        #expect(
            try await fixture.ada.get("/v1/mutations").mutations.map { $0["stale"]?.bool } == [false, false, false]
        )
        fixture.gateway.clock.advance(seconds: 85_800)
        let later = try await SyncWorker(
            fixture.gateway,
            organization: fixture.ada.organization,
            user: fixture.ada.user
        )
        #expect(try await later.get("/v1/mutations").mutations.map { $0["stale"]?.bool } == [false, false, false])
        fixture.gateway.clock.advance(seconds: 601)
        #expect(try await later.get("/v1/mutations").mutations.map { $0["stale"]?.bool } == [true, true, false])
    }

    @Test func `answers 404 for missing mutations and invalid ids`() async throws {
        let fixture = try await TwoTenantFixture()
        _ = try await fixture.ada.push([fixture.ada.create()])
        let ids = [
            UUID().lowercased, "1", "x", "%20", "00000000-0000-0000-0000-00000000000g",
            "%7B\(UUID().lowercased)%7D", UUID().lowercased.replacingOccurrences(of: "-", with: ""),
        ]
        for id in ids {
            expectProblem(try await fixture.ada.get("/v1/mutations/" + id), .notFound, errors: [])
        }
        for path in ["/v1/mutations/", "/v1/mutations/\(UUID().lowercased)/", "/v1//mutations"] {
            expectProblem(try await fixture.ada.get(path), .notFound, errors: [])
        }
    }

    @Test func `returns a settled mutation immediately regardless of the wait`() async throws {
        let fixture = try await TwoTenantFixture()
        let (good, bad) = (fixture.ada.create(), fixture.ada.change(server: UUID().lowercased))
        _ = try await fixture.ada.push([good, bad])
        let start = ContinuousClock.now
        for id in [good.id, bad.id] {
            #expect(try await fixture.ada.get("/v1/mutations/\(id)?wait=60").status == 200)
        }
        expectProblem(try await fixture.ada.get("/v1/mutations/\(UUID().lowercased)?wait=60"), .notFound)
        #expect(ContinuousClock.now - start < .seconds(60), "three requests take less time than a single wait")
    }

    @Test func `rejects a wait that is not a number of seconds`() async throws {
        let fixture = try await TwoTenantFixture()
        let draft = fixture.ada.create()
        _ = try await fixture.ada.push([draft])
        for query in ["wait=-1", "wait=x", "wait=1.5", "wait=1&wait=2", "wait=99999999999999999999", "wait=%FF"] {
            expectProblem(
                try await fixture.ada.get("/v1/mutations/\(draft.id)?\(query)"),
                .invalidRequest,
                errors: [" parameter_invalid"]
            )
        }
    }
}
