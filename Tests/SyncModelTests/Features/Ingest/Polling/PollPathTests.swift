import Testing

@testable import IngestFeature
@testable import SyncModel

/// Determines the path of the next page.
@Suite struct PollPathTests {
    @Test(arguments: [
        (#"</a?page=2>; rel="next""#, "/a?page=2"), (#"<a>;rel=next"#, "a"), (#"<a>; REL=Next; title="x""#, "a"),
        (#"<a>; rel="prev", <b>; rel="next""#, "b"), (#"<a,b;c>; rel="last next first""#, "a,b;c"),
        (#"<a>; title="rel=\"next\", <c>; rel=next"; rel=prev , <b>;rel="next""#, "b"),
        (#" , <b> ; rel = "next" ;"#, "b"), (#"garbage, <b>; rel="next""#, "b"),
        (#"<a> x; y, z, <b>; rel="next""#, "b"),
    ])
    func `finds a link to the next page`(_ value: String, _ target: String) {
        #expect(LinkHeader.next(in: [value]) == target)
        #expect(LinkHeader.next(in: [#"<z>; rel="last""#, value]) == target)
    }

    @Test(arguments: [
        "", "<a>", "a; rel=next", #"<a; rel="next""#, #"<a>; rel="prev""#, #"<a>; rel="nextpage""#,
        #"<a>; rel="prev"; rel="next""#, #"<a>; rel="next"; anchor="/b""#, #"<a>; title="x; rel=next"#, "<a>; rel",
    ])
    func `ignores headers without a next link`(_ value: String) {
        #expect(LinkHeader.next(in: [value]) == nil)
    }

    @Test(arguments: [
        ("/v1/contacts?page=2", "/contacts?page=2"), ("?page=2", "/contacts?page=2"), ("people?x", "/people?x"),
        ("https://api.example/v1/contacts?a=b%20c", "/contacts?a=b%20c"), ("//api.example/v1/x", "/x"),
        ("HTTPS://API.example:443/v1/x#part", "/x"), ("", "/contacts?since=1"), ("/v1?page=2", "/?page=2"),
    ])
    func `follows a reference below the base URL`(_ reference: String, _ path: String) throws {
        let base = try BaseURL("https://api.example/v1")
        #expect(try PollPath("/contacts?since=1").following(reference, below: base).text == path)
    }

    @Test(arguments: [
        "https://elsewhere.example/v1/x", "http://api.example/v1/x", "https://api.example:8443/v1/x",
        "https://api.example@elsewhere.example/v1/x", "https://user@api.example/v1/x", "//elsewhere.example/v1/x",
        "/v2/x", "/v10/x", "/", "/v1/../admin", "/v1/%2e%2e/admin", "/v1//elsewhere.example", "../x",
        "ftp://api.example/v1",
        "javascript:alert(1)", "https:/v1/x", "https://api.example", "https://api.example\\@elsewhere.example/v1/x",
        "/v1/a b", "/v1/\u{0}", "/v1/" + String(repeating: "a", count: 9_000), "https://[::1]/v1/x", "/v1/x\r\nHost: a",
    ])
    func `refuses a reference outside the base URL`(_ reference: String) throws {
        let base = try BaseURL("https://api.example/v1")
        #expect(throws: PollPath.Refused.self) {
            try PollPath("/contacts").following(reference, below: base)
        }
    }

    @Test func `a base URL without a path has all of its origin below it`() throws {
        let base = try BaseURL("http://127.0.0.1:8080")
        #expect(try PollPath("/a").following("/b?c", below: base).text == "/b?c")
        #expect(throws: PollPath.Refused.self) { try PollPath("/a").following("//127.0.0.1/b", below: base) }
    }

    @Test func `encodes parameters and appends them to the existing ones`() {
        var path = PollPath("/contacts?view=all")
        path.add("updated since", "2026-01-01T00:00:00.000+01:00&x=1")
        #expect(path.text == "/contacts?view=all&updated%20since=2026-01-01T00%3A00%3A00.000%2B01%3A00%26x%3D1")
        #expect(path.parameters == ["view", "updated since"])
    }
}
