import Foundation
import GatewaySupport
import JSONText
import NIOHTTP1
import SyncHTTP
import SyncModel
import Testing

/// Pushes whose body as a whole violates the contract.
@Suite struct BadBodyTests {
    @Test func `rejects a body that is not JSON`() async throws {
        let fixture = try await TwoTenantFixture()
        let good = fixture.ada.envelope([fixture.ada.create()])
        let (open, close) = (String(repeating: "[", count: 100_000), String(repeating: "]", count: 100_000))
        let texts = [
            "", " \r\n\t", "{", "}", "{]", "{\"device_id\":}", "{'device_id':1}", "{device_id:1}", "nul", "NaN", "+1",
            "01", "1.", "\"", "\"\\x\"", "\"\\u12\"", "\"\n\"", "{\"a\":1,}", "[1,]", "[1 2]", "/**/{}",
            String(good.dropLast()), good + "x", good + good, good + "\0", "\u{feff}" + good, open, open + close,
        ]
        let invalid: [[UInt8]] = [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe2, 0x82]]
        let bytes = invalid.map { Array("[\"".utf8) + $0 + Array("\"]".utf8) }
        let utf16 = Array(good.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] })
        try await fixture.whileNothingChanges {
            for body in texts.map({ Array($0.utf8) }) + bytes + [utf16, [0x1f, 0x8b, 0x08, 0x00]] {
                let reply = try await fixture.ada.post("/v1/mutations", bytes: body)
                expectProblem(reply, .invalidJSON, errors: [])
            }
        }
    }

    @Test func `rejects a body that is not a push and points to the error`() async throws {
        let fixture = try await TwoTenantFixture()
        let device = #""device_id":\#(fixture.ada.device.quoted)"#
        let list = #""mutations":[\#(fixture.ada.create().json)]"#
        let cases: [(String, String)] = [
            ("[]", " member_type"), ("null", " member_type"), ("1", " member_type"), ("\"x\"", " member_type"),
            ("{}", "/device_id member_required"), ("{\(list)}", "/device_id member_required"),
            ("{\"device_id\":null,\(list)}", "/device_id member_required"),
            ("{\"device_id\":1,\(list)}", "/device_id uuid_format"),
            ("{\"device_id\":\"phone\",\(list)}", "/device_id uuid_format"),
            ("{\"device_id\":\"\\u0000\",\(list)}", "/device_id uuid_format"),
            ("{\(device)}", "/mutations member_required"),
            ("{\(device),\"mutations\":null}", "/mutations member_type"),
            ("{\(device),\"mutations\":{}}", "/mutations member_type"),
            ("{\(device),\(list),\"after_sequence\":-1}", "/after_sequence member_range"),
            ("{\(device),\(list),\"after_sequence\":0.5}", "/after_sequence member_range"),
            ("{\(device),\(list),\"after_sequence\":\"0\"}", "/after_sequence member_range"),
            ("{\(device),\(list),\"after_sequence\":9223372036854775808}", "/after_sequence member_range"),
            (
                "{\(device),\(list),\"organization_id\":\(fixture.eve.organization.quoted)}",
                "/organization_id member_unknown"
            ),
            ("{\(device),\(list),\"user\":null}", "/user member_unknown"),
            ("{\(device),\(list),\"a/b~c\":1}", "/a~1b~0c member_unknown"),
            ("{\(device),\(list),\"\":1}", "/ member_unknown"),
            ("{\(device),\(list),\(device)}", "/device_id member_duplicate"),
            ("{\(device),\(list),\(list)}", "/mutations member_duplicate"),
            ("{\(device),\(list),\"device\\u005fid\":\(UUID().quoted)}", "/device_id member_duplicate"),
        ]
        try await fixture.whileNothingChanges {
            for (body, error) in cases {
                let reply = try await fixture.ada.post("/v1/mutations", body)
                expectProblem(reply, .invalidRequest, errors: [error])
            }
        }
    }

    @Test func `rejects unknown query parameters of a push`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = fixture.ada.envelope([fixture.ada.create()])
        try await fixture.whileNothingChanges {
            let reply = try await fixture.ada.post("/v1/mutations?handling=strict", body)
            expectProblem(reply, .invalidRequest, errors: [" parameter_unknown"])
        }
    }

    @Test func `rejects other media types than JSON`() async throws {
        let fixture = try await TwoTenantFixture()
        let body = fixture.ada.envelope([fixture.ada.create()])
        try await fixture.whileNothingChanges {
            for type in [
                "", "text/plain", "application/jsonx", "application/x-www-form-urlencoded", "multipart/form-data",
                "application/problem+json", "application/json, text/plain",
            ] {
                let reply = try await fixture.ada.post("/v1/mutations", body, headers: [("Content-Type", type)])
                expectProblem(reply, .unsupportedMediaType, errors: [])
            }
            for encoding in ["gzip", "br", "deflate", "identity, gzip", "x"] {
                let reply = try await fixture.ada.post("/v1/mutations", body, headers: [("Content-Encoding", encoding)])
                expectProblem(reply, .unsupportedMediaType, errors: [])
            }
        }
        for type in ["application/json", "Application/JSON", "application/json;charset=UTF-8"] {
            let good = fixture.ada.envelope([fixture.ada.create()])
            let headers = [("Content-Type", type), ("Content-Encoding", "identity")]
            #expect(try await fixture.ada.post("/v1/mutations", good, headers: headers).statuses == ["succeeded"])
        }
    }

    @Test func `rejects a push with more mutations than the limit`() async throws {
        let fixture = try await TwoTenantFixture { $0.limits.mutations = 3 }
        try await fixture.whileNothingChanges {
            let reply = try await fixture.ada.push((0..<4).map { _ in fixture.ada.create() })
            expectProblem(reply, .payloadTooLarge, errors: [])
            let nothing = "{\"device_id\":\(fixture.ada.device.quoted),\"mutations\":[1,2,3,4]}"
            expectProblem(try await fixture.ada.post("/v1/mutations", nothing), .payloadTooLarge, errors: [])
        }
        #expect(try await fixture.ada.push((0..<3).map { _ in fixture.ada.create() }).statuses.count == 3)
    }

    @Test func `the default limits are those of the contract`() async throws {
        let fixture = try await TwoTenantFixture()
        try await fixture.whileNothingChanges {
            let many = try await fixture.ada.push((0..<501).map { _ in fixture.ada.create() })
            expectProblem(many, .payloadTooLarge, errors: [])
            // a client that reads the response only after it has sent everything
            for head in ["Content-Length: 4194305\r\n", "Transfer-Encoding: chunked\r\n"] {
                let connection = try RawConnection(port: fixture.gateway.port)
                let isChunked = head.hasPrefix("T")
                await connection.send(fixture.ada.pushHead(head) + (isChunked ? "400001\r\n" : ""))
                await connection.send([UInt8](repeating: UInt8(ascii: " "), count: 4_194_305))
                if isChunked { await connection.send("\r\n0\r\n\r\n") }
                expectProblem(try await connection.reply(), .payloadTooLarge, errors: [])
            }
            // more than a million values, in fewer bytes than the limit
            let values = "[" + String(repeating: "0,", count: 1_000_001) + "0]"
            expectProblem(try await fixture.ada.post("/v1/mutations", values), .payloadTooLarge, errors: [])
        }
        let most = try await fixture.ada.push((0..<500).map { _ in fixture.ada.create() })
        #expect(most.status == 200, "\(most.text.prefix(500))")
        #expect(most.statuses == Array(repeating: "succeeded", count: 500))
    }

    @Test func `accepts a body of exactly the maximum size and rejects one more byte`() async throws {
        let fixture = try await TwoTenantFixture { $0.limits.bodyBytes = 2_000 }
        let body = fixture.ada.envelope([fixture.ada.create()])
        let space = String(repeating: " ", count: 2_000 - body.utf8.count)
        try await fixture.whileNothingChanges {
            expectProblem(try await fixture.ada.post("/v1/mutations", body + space + " "), .payloadTooLarge, errors: [])
            let chunked = try RawConnection(port: fixture.gateway.port)
            await chunked.send(fixture.ada.pushHead("Transfer-Encoding: chunked\r\n"))
            await chunked.send("\(String(body.utf8.count, radix: 16))\r\n\(body)\r\n")
            await chunked.send("\(String(space.utf8.count + 1, radix: 16))\r\n\(space) \r\n0\r\n\r\n")
            expectProblem(try await chunked.reply(), .payloadTooLarge, errors: [])
            // rejected before any of it is sent
            for length in ["2001", "9223372036854775807"] {
                let announced = try RawConnection(port: fixture.gateway.port)
                await announced.send(fixture.ada.pushHead("Content-Length: \(length)\r\n"))
                let reply = try await announced.reply()
                expectProblem(reply, .payloadTooLarge, errors: [])
                #expect(reply.header("connection") == ["close"])
            }
        }
        var whole = fixture.ada.envelope([fixture.ada.create()])
        whole += String(repeating: " ", count: 2_000 - whole.utf8.count)
        let chunked = try RawConnection(port: fixture.gateway.port)
        await chunked.send(fixture.ada.pushHead("Transfer-Encoding: chunked\r\n"))
        for character in whole.prefix(50) { await chunked.send("1\r\n\(character)\r\n") }
        let rest = String(whole.dropFirst(50))
        await chunked.send("\(String(rest.utf8.count, radix: 16));x=y\r\n\(rest)\r\n0\r\nTrailer: x\r\n\r\n")
        let reply = try await chunked.reply()
        #expect(reply.statuses == ["succeeded"], "\(reply.text)")
        let again = try await fixture.ada.post("/v1/mutations", whole)
        #expect(again.results.first?["replayed"]?.bool == true)
    }
}
