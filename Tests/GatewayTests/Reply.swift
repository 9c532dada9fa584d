import AsyncHTTPClient
import Foundation
import JSONText
import NIOCore
import NIOHTTP1
import SyncModel
import TestSupport
import Testing

/// A server's response.
struct Reply: Sendable {
    let status: Int
    let headers: HTTPHeaders
    let body: [UInt8]

    /// Every value of a header field.
    func header(_ name: String) -> [String] { headers[name] }

    var text: String { String(decoding: body, as: UTF8.self) }
    var json: JSONValue? { try? JSONTree(parsing: body).root }
    var results: [JSONValue] { json?["results"]?.elements.map(Array.init) ?? [] }
    var mutations: [JSONValue] { json?["mutations"]?.elements.map(Array.init) ?? [] }
    var changes: [JSONValue] { json?["changes"]?.elements.map(Array.init) ?? [] }
    var mappings: [JSONValue] { json?["id_mappings"]?.elements.map(Array.init) ?? [] }
    var statuses: [String?] { results.map { $0["status"]?.string } }
    var next: String? { json?["next"]?.string }
    var isUpToDate: Bool? { json?["up_to_date"]?.bool }
    var code: String? { json?["code"]?.string }
    /// `pointer rule` of each of a problem's errors.
    var errors: [String] { json?.errors ?? [] }
}

extension JSONValue {
    var names: [String] { members.map { $0.map(\.name.string) } ?? [] }
    var text: String { String(decoding: raw, as: UTF8.self) }
    var errors: [String] {
        let errors = self["errors"]?.elements.map(Array.init) ?? []
        return errors.map { "\($0["pointer"]?.string ?? "-") \($0["rule"]?.string ?? "-")" }
    }
    var errorCode: String? { self["error"]?["code"]?.string }
}

/// Sends one request over a pooled connection.
func send(
    _ method: HTTPMethod,
    _ url: String,
    token: String? = nil,
    headers: [(String, String)] = [],
    body: [UInt8]? = nil,
    timeout: TimeAmount = .seconds(290)
) async throws -> Reply {
    var request = HTTPClientRequest(url: url)
    request.method = method
    if let token { request.headers.add(name: "authorization", value: "Bearer \(token)") }
    if let body {
        request.body = .bytes(body)
        if !headers.contains(where: { $0.0.lowercased() == "content-type" }) {
            request.headers.add(name: "content-type", value: "application/json")
        }
    }
    for (name, value) in headers { request.headers.add(name: name, value: value) }
    let response = try await HTTPClient.shared.execute(request, timeout: timeout)
    let bytes = try await response.body.collect(upTo: 64 << 20)
    return Reply(status: Int(response.status.code), headers: response.headers, body: Array(bytes.readableBytesView))
}

/// Expects the contract's problem document for the code, complete and without internal details.
func expectProblem(
    _ reply: Reply,
    _ code: ProblemCode,
    errors: [String]? = nil,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(reply.status == code.status, "\(reply.text)", sourceLocation: sourceLocation)
    #expect(reply.header("content-type") == ["application/problem+json"], sourceLocation: sourceLocation)
    let problem = reply.json
    #expect(problem?["type"]?.string == "urn:sluice:problem:\(code.rawValue)", sourceLocation: sourceLocation)
    #expect(problem?["title"]?.string == code.title, sourceLocation: sourceLocation)
    #expect(problem?["status"]?.int64 == Int64(code.status), sourceLocation: sourceLocation)
    #expect(problem?["code"]?.string == code.rawValue, sourceLocation: sourceLocation)
    #expect(problem?["detail"]?.string?.isEmpty == false, sourceLocation: sourceLocation)
    #expect(problem?["request_id"]?.string?.isEmpty == false, sourceLocation: sourceLocation)
    #expect(
        reply.header("x-request-id") == [problem?["request_id"]?.string ?? "-"],
        sourceLocation: sourceLocation
    )
    let known = ["type", "title", "status", "code", "detail", "request_id", "expected", "snapshot", "errors"]
    #expect(problem?.names.filter { !known.contains($0) } == [], sourceLocation: sourceLocation)
    for word in ["sql", "select ", "postgres", "swift", "fatal"] {
        #expect(!reply.text.lowercased().contains(word), "\(reply.text)", sourceLocation: sourceLocation)
    }
    if let errors { #expect(reply.errors == errors, "\(reply.text)", sourceLocation: sourceLocation) }
}

/// Repeats a request that is answered 503, as a sync worker does.
///
/// After an outage, committers and pools connect again one after another, and `/readyz` can be 200 before all of them
/// are connected.
nonisolated(nonsending) func untilAvailable(_ request: () async throws -> Reply) async throws -> Reply {
    var reply = try await request()
    try await waitUntil("the request is answered") {
        if reply.status == 503 { reply = try await request() }
        return reply.status != 503
    }
    return reply
}
