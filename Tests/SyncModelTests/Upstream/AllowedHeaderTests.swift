import Foundation
import JSONText
import Testing

@testable import SyncModel

/// The headers of a mutation that are accepted, and the headers that are sent.
@Suite struct AllowedHeaderTests {
    private static let reserved = [
        "connection", "host", "content-length", "authorization", "cookie", "idempotency-key", "traceparent",
        "x-sluice-user", "x-sluice-anything", "forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded",
        "x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-original-host",
        "x-rewrite-url", "x-real-ip", "proxy-authorization", "transfer-encoding", "expect", "accept-encoding",
    ]

    private func refused(_ names: [String], _ upstream: UpstreamSettings?) throws -> [ProblemDetail] {
        let json = "{" + names.map { "\"\($0)\":\"v\"" }.joined(separator: ",") + "}"
        let root = try JSONTree(parsing: Array(json.utf8)).root
        return HeaderRules.refused(root, by: upstream, pointer: "/mutations/3/headers")
    }

    @Test func `accepts the common headers without an upstream`() throws {
        let names = ["Accept", "accept-language", "Content-Language", "If-Match", "if-none-match", "PREFER"]
        #expect(try refused(names, nil) == [])
    }

    @Test func `refuses unlisted headers with a pointer to each`() throws {
        let found = try refused(["x-app", "accept", "content-type", "accept_language"], nil)
        let names = ["x-app", "content-type", "accept_language"]
        #expect(found.map(\.pointer) == names.map { "/mutations/3/headers/\($0)" })
        #expect(Set(found.map(\.rule)) == [Rule.header])
        let listed = UpstreamSettings(baseURL: "http://a", allowedHeaders: ["content-type", "x-app"])
        #expect(try refused(["X-App", "content-type"], listed) == [])
        #expect(try refused(["x_app"], listed).count == 1)
    }

    @Test(arguments: reserved)
    func `refuses to list headers that upstreams obey or trust`(_ name: String) throws {
        let spellings = [
            name, name.uppercased(), name.replacingOccurrences(of: "-", with: "_"),
            name.replacingOccurrences(of: "-", with: "."), name.capitalized,
        ]
        for spelling in spellings {
            #expect(UpstreamSettings.allowedHeaderProblem(spelling) != nil, "\(spelling)")
            // nevertheless in a row that was written without the gateway
            let upstream = UpstreamSettings(baseURL: "http://a", allowedHeaders: [spelling.lowercased()])
            #expect(try refused([spelling], upstream).count == 1, "\(spelling)")
            #expect(!upstream.allows(spelling), "\(spelling)")
        }
    }

    @Test func `reserves the gateway's own headers in every spelling`() {
        for name in ["X_Sluice_User", "x-sluice_organization", "Idempotency_Key", "content_length", "X.Sluice.User"] {
            for isCredential in [false, true] {
                let problem = UpstreamSettings.headerProblem(name: name, value: "x", isCredential: isCredential)
                #expect(problem != nil, "\(name)")
            }
        }
    }

    /// For a mutation accepted before the list existed, unlisted headers are not sent; the preview shows the sent ones.
    @Test func `does not send unlisted headers`() throws {
        var sample = Sample()
        sample.headers = #"{"X-App":"1","Accept-Language":"nb","X-HTTP-Method-Override":"DELETE","x_sluice_user":"me"}"#
        #expect(try #require(sample.request).headers == ["accept-language": "nb"])
        sample.upstream?.allowedHeaders = ["x-app"]
        #expect(try #require(sample.request).headers == ["accept-language": "nb", "x-app": "1"])
        sample.upstream?.allowedHeaders = ["x-http-method-override", "x_sluice_user"]
        #expect(try #require(sample.request).headers == ["accept-language": "nb"])
    }
}
