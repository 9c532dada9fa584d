import Foundation
import JSONText
import SyncModel
import SyncUpstream
import TestSupport
import Testing

/// Tests with independent server implementations.
@Suite struct RealServerTests {
    @Test func `nginx answers many requests at once`() async throws {
        let server = try await NginxServer.start(
            configuration: #"location / { default_type application/json; return 201 '{"id":7}'; }"#
        )
        let statuses = try await withUpstream { upstream in
            await withTaskGroup(of: Int?.self) { group in
                for index in 0..<200 {
                    group.addTask {
                        let settings = UpstreamSettings(baseURL: server.baseURL)
                        return await upstream.send(request("POST", "/items/\(index)"), to: settings).response?.status
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
        }
        #expect(statuses == Array(repeating: 201, count: 200))
    }

    @Test func `notices that a server stops and another starts`() async throws {
        let server = try await NginxServer.start()
        try await withUpstream { upstream in
            let settings = UpstreamSettings(baseURL: server.baseURL)
            #expect(await upstream.send(request(), to: settings).response?.status == 200)
            try await server.end()
            var answer = await upstream.send(request(), to: settings)
            // the kept connection may be found broken first
            if answer.notSent != "connection refused" { answer = await upstream.send(request(), to: settings) }
            #expect(answer.notSent == "connection refused")
        }
    }

    @Test func `httpbin receives the sent request`() async throws {
        let server = try await HTTPBinServer.shared()
        let answer = try await withUpstream {
            let settings = UpstreamSettings(baseURL: server.baseURL + "/anything", credential: .bearer("abc"))
            return await $0.send(request("PATCH", "/items?x=1", headers: ["accept-language": "nb"]), to: settings)
        }
        let document = try JSONTree(parsing: try #require(answer.response?.json)).root
        #expect(document.value(at: "/method")?.string == "PATCH")
        #expect(document.value(at: "/args/x")?.string == "1")
        #expect(document.value(at: "/json/a")?.int64 == 1)
        #expect(document.value(at: "/headers/Authorization")?.string == "Bearer abc")
        #expect(document.value(at: "/headers/Accept-Language")?.string == "nb")
    }

    @Test(arguments: [200, 201, 301, 307, 404, 409, 412, 422, 429, 500, 503])
    func `every status is an answer`(_ status: Int) async throws {
        let server = try await HTTPBinServer.shared()
        let answer = try await withUpstream {
            await $0.send(request("PUT", "/status/\(status)"), to: UpstreamSettings(baseURL: server.baseURL))
        }
        #expect(answer.response?.status == status)
    }

    @Test func `kinto honours conditions`() async throws {
        let server = try await KintoServer.shared()
        let settings = UpstreamSettings(
            baseURL: server.baseURL + "/buckets/default/collections/notes",
            credential: .header(name: "Authorization", value: "Basic bm90ZXM6bm90ZXM="),
            idPointer: "/data/id"
        )
        try await withUpstream { upstream in
            let created = await upstream.send(request("POST", "/records", body: #"{"data":{"a":1}}"#), to: settings)
            let response = try #require(created.response)
            #expect(response.status == 201)
            let id = try #require(try JSONTree(parsing: response.json ?? []).root.value(at: "/data/id")?.string)
            let path = "/records/\(id)"
            let stale = await upstream.send(
                request("PATCH", path, ifMatch: "\"1\"", body: #"{"data":{"a":2}}"#),
                to: settings
            )
            #expect(stale.response?.status == 412)
            let forced = await upstream.send(
                request(
                    "PATCH",
                    path,
                    headers: ["if-match": "\"1\""],
                    isUnconditional: true,
                    body: #"{"data":{"a":3}}"#
                ),
                to: settings
            )
            #expect(forced.response?.status == 200)
            #expect(forced.response?.etag != nil)
            let deleted = await upstream.send(request("DELETE", path, body: nil), to: settings)
            #expect(deleted.response?.status == 200)
        }
    }
}
