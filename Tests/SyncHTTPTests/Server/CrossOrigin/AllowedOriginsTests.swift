import Testing

@testable import SyncHTTP

/// The web pages that may read responses.
@Suite struct AllowedOriginsTests {
    @Test func `origins are compared as a whole, and patterns match only subdomains`() throws {
        let origins = try #require(
            AllowedOrigins(
                parsing: """
                    https://app.example.org http://localhost:5173
                    https://*.example.com https://*.example.net:8443 http://*.localhost:3000 http://[::1]:5173
                    """
            )
        )
        let allowed = [
            "https://app.example.org", "http://localhost:5173", "https://a.example.com", "https://a.b.example.com",
            "https://a.example.net:8443", "http://tenant.localhost:3000", "http://[::1]:5173",
        ]
        for origin in allowed { #expect(origins.allows(origin), "\(origin)") }
        let others = [
            "http://app.example.org", "https://app.example.org:8443", "https://app.example.org.evil.com",
            "https://example.org", "https://example.com", "https://evilexample.com", "https://.example.com",
            "https://a..example.com", "https://a.example.com.evil.org", "https://a.example.com:444",
            "https://a.example.net", "http://a.example.com", "https://evil.com/.example.com",
            "https://evil.com#.example.com", "https://evil.com?.example.com", "https://user@a.example.com",
            "https://evil.com:80.example.com", "https://*.example.com", "https://A.example.com",
            "https://a.example.com/",
            "https://a.example.com ", "null", "", "https://", "http://[::1]", "file://", "app.example.org",
            "https://" + String(repeating: "a.", count: 200) + "example.com",
        ]
        for origin in others { #expect(!origins.allows(origin), "\(origin)") }
    }

    @Test(arguments: [
        "", " ", "*", "null", "https://*", "https://*.org", "https://*.", "https://a.*.example.org",
        "https://*example.org",
        "https://app.example.org/", "https://app.example.org/x", "https://App.example.org",
        "https://app.example.org:443",
        "http://localhost:80", "https://app.example.org:0", "https://app.example.org:65536",
        "https://app.example.org:08",
        "https://app.example.org:", "ftp://app.example.org", "app.example.org", "https://user@app.example.org",
        "https://app..example.org", "https://app.example.org.", "https://a.example.org,https://b.example.org",
        "https://münchen.example", "http://[]", "http://[::1", "https://a.example.org null",
    ])
    func `rejects invalid lists of origins`(_ text: String) { #expect(AllowedOrigins(parsing: text) == nil) }

    @Test func `accepts at most a hundred origins`() {
        let origins = (1...101).map { "https://a\($0).example.org" }
        #expect(AllowedOrigins(parsing: origins.dropLast().joined(separator: " ")) != nil)
        #expect(AllowedOrigins(parsing: origins.joined(separator: " ")) == nil)
    }
}
