import GatewaySupport
import JSONText
import NIOHTTP1
import Testing

@testable import Sluice

/// The pushes that `sluice dev --demo-upstream` prints.
@Suite struct DemoTourTests {
    @Test func `the gateway accepts all pushes of the demo tour in order`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = #"{"base_url":"http://127.0.0.1:1"}"#
        #expect(try await fixture.operate(.PUT, fixture.admin + "/upstream", body).status == 201)
        for push in [DemoTour.replay, DemoTour.retry, DemoTour.conflict] {
            let reply = try await fixture.ada.post("/v1/mutations", push)
            #expect([200, 202].contains(reply.status), "\(reply.text)")
            for result in reply.results {
                #expect(result["status"]?.string != "rejected", "\(reply.text)")
                #expect(result["replayed"]?.bool == false)
            }
            #expect(
                try await fixture.ada.post("/v1/mutations", push).results.allSatisfy { $0["replayed"]?.bool == true }
            )
        }
        let known = try await fixture.ada.get("/v1/mutations/\(DemoTour.conflicting)")
        #expect(known.json?["headers"]?["if-match"]?.string == #""2""#, "\(known.text)")
    }
}
