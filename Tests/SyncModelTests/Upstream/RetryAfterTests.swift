import SyncModel
import Testing

@Suite struct RetryAfterTests {
    /// Friday, 2026-11-20T07:00:00Z.
    private let now = Timestamp(microseconds: 1_795_158_000_000_000)

    @Test(arguments: [
        ("0", 0), ("120", 120), (" 7 ", 7), ("007", 7), ("86400", 86_400), ("86401", 86_400),
        ("99999999999999999999999999", 86_400),
        ("Fri, 20 Nov 2026 07:01:40 GMT", 100), ("Friday, 20-Nov-26 07:01:40 GMT", 100),
        ("Fri Nov 20 07:01:40 2026", 100), ("Fri, 20 Nov 2026 06:59:00 GMT", 0), ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0), ("Sun Nov  6 08:49:37 1994", 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86_400), ("Sat, 20 Nov 2027 07:00:00 GMT", 86_400),
    ])
    func `reads seconds and dates`(_ text: String, _ seconds: Double) {
        #expect(Timestamp(retryAfter: text, now: now) == now.adding(seconds: seconds))
    }

    @Test(arguments: [
        "", " ", "-1", "+1", "1.5", "1s", "1 2", "0x10", "soon", "2026-11-20T07:01:40Z", "Fri, 20 Nov 2026 07:01:40",
        "Fri, 20 Nov 2026 07:01:40 CET", "Fri, 20 Nov 2026 24:01:40 GMT", "Fri, 31 Nov 2026 07:01:40 GMT",
        "Fri, 0 Nov 2026 07:01:40 GMT", "Fri, 20 nov 2026 07:01:40 GMT", "Fry, 20 Nov 2026 07:01:40 GMT",
        "Friday, 20 Nov 2026 07:01:40 GMT", "Fri, 20-Nov-26 07:01:40 GMT", "Fri Nov 6 07:01:40 2026",
        "Fri, 20 Nov 2026 07:01:40 GMT; x", "Fri, 20 Nov 0026 07:01:40 GMT", "Fri, 20 Nov 2026 07:01 GMT", "Fri",
        "\u{661}",
    ])
    func `refuses anything else`(_ text: String) {
        #expect(Timestamp(retryAfter: text, now: now) == nil)
    }
}
