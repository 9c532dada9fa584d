import Foundation
import JSONText
import SyncModel
import TestSupport
import Testing
import WebhooksFeature

/// Retries, permitted addresses and bodies of webhooks.
@Suite struct WebhookTests {
    static let start = Timestamp(microseconds: 1_795_000_000_000_000)

    static func delivery(attempts: Int16 = 0, since: Timestamp = start) -> WebhookDelivery {
        WebhookDelivery(
            id: UUID(),
            event: .mutationFailed,
            data: Array(#"{"user_id":"x"}"#.utf8),
            occurredAt: start,
            sequence: 7,
            attemptCount: attempts,
            triedSince: since
        )
    }

    // MARK: - Attempts

    @Test(arguments: [0.0, 0.5, 1.0])
    func `a delivery is attempted ten times over three days`(jitter: Double) {
        var (now, count) = (Self.start, Int16(0))
        while true {
            let outcome = WebhookSchedule.outcome(
                of: Self.delivery(attempts: count),
                .status(500, retryAt: nil),
                now: now,
                jitter: jitter
            )
            count += 1
            #expect(outcome.attemptCount == count && outcome.lastStatus == 500)
            if outcome.status == .dead { break }
            #expect(outcome.status == .waiting && outcome.nextAttempt > now)
            now = outcome.nextAttempt
        }
        #expect(count == 10)
        let days = Double(now.microseconds - Self.start.microseconds) / 86_400e6
        #expect(days > 2.8 && days < 3.1, "\(days)")
    }

    @Test func `only a success delivers, and 410 ends the delivery`() {
        func outcome(_ answer: WebhookAnswer) -> WebhookOutcome {
            WebhookSchedule.outcome(of: Self.delivery(), answer, now: Self.start, jitter: 0)
        }
        for status in [200, 201, 204, 299] { #expect(outcome(.status(status, retryAt: nil)).status == .delivered) }
        for status in [100, 300, 301, 308, 400, 401, 404, 429, 500, 503] {
            let outcome = outcome(.status(status, retryAt: nil))
            #expect(outcome.status == .waiting && outcome.nextAttempt == Self.start.adding(seconds: 5), "\(status)")
            #expect(outcome.lastError != nil)
        }
        #expect(outcome(.status(302, retryAt: nil)).lastError?.contains("not followed") == true)
        #expect(outcome(.none("connecting timed out")).lastError == "connecting timed out")
        let gone = outcome(.status(410, retryAt: nil))
        #expect(gone.status == .dead && gone.lastStatus == 410)
        var health = WebhookHealth()
        health.record(.status(410, retryAt: nil), now: Self.start, jitter: 0)
        #expect(health.isGone && health.rests(at: Self.start))
    }

    @Test func `Retry-After postpones a delivery, for an hour at most`() {
        func next(_ status: Int, after seconds: Double) -> Double {
            let answer = WebhookAnswer.status(status, retryAt: Self.start.adding(seconds: seconds))
            let outcome = WebhookSchedule.outcome(of: Self.delivery(), answer, now: Self.start, jitter: 0)
            return Double(outcome.nextAttempt.microseconds - Self.start.microseconds) / 1e6
        }
        #expect(next(429, after: 60) == 60)
        #expect(next(503, after: 1) == 5, "never sooner than without it")
        #expect(next(503, after: 86_400) == 3_600)
        #expect(next(500, after: 60) == 5, "only for an overload response")
        var health = WebhookHealth()
        health.record(.status(429, retryAt: Self.start.adding(seconds: 60)), now: Self.start, jitter: 0)
        #expect(health.rests(at: Self.start.adding(seconds: 59)) && !health.rests(at: Self.start.adding(seconds: 60)))
    }

    @Test func `consecutive failures pause the endpoint, longer each time, and a success ends the pause`() {
        var (health, now) = (WebhookHealth(), Self.start)
        for count in 1...4 {
            health.record(.none("x"), now: now, jitter: 0)
            #expect(!health.isOpen && !health.rests(at: now) && health.failureCount == Int32(count))
        }
        var pauses: [Double] = []
        for _ in 0..<12 {
            health.record(.none("x"), now: now, jitter: 0)
            let until = health.pausedUntil ?? now
            #expect(health.isOpen && health.rests(at: now) && !health.rests(at: until))
            pauses.append(Double(until.microseconds - now.microseconds) / 1e6)
            now = until
        }
        #expect(pauses == [5, 10, 20, 40, 80, 160, 320, 600, 600, 600, 600, 600])
        #expect(health.failingSince == Self.start && health.lastError == "x")
        health.record(.status(200, retryAt: nil), now: now, jitter: 0)
        #expect(health == WebhookHealth())
    }

    @Test func `a delivery to an unresponsive endpoint expires after three days`() {
        let delivery = Self.delivery()
        let days = Self.start.adding(seconds: 3 * 86_400)
        #expect(WebhookSchedule.outcome(ofUnsent: delivery, now: days.adding(seconds: -1)) == nil)
        let outcome = WebhookSchedule.outcome(ofUnsent: delivery, now: days)
        #expect(outcome?.status == .dead && outcome?.attemptCount == 0)
        let sent = WebhookSchedule.outcome(of: delivery, .none("x"), now: days, jitter: 0)
        #expect(sent.status == .dead, "the first attempt may be the last")
        let retried = Self.delivery(since: days)
        #expect(WebhookSchedule.outcome(ofUnsent: retried, now: days) == nil, "a retry starts from the beginning")
    }

    @Test func `a body is the same in all attempts, with its time, content and sequence number`() throws {
        let organization = UUID()
        let delivery = Self.delivery()
        let body = delivery.body(of: organization)
        let json = try JSONTree(parsing: body).root
        #expect(json.members?.map { $0.name.string } == ["type", "timestamp", "sequence", "organization_id", "data"])
        #expect(json.value(at: "/type")?.string == "mutation.failed")
        #expect(json.value(at: "/timestamp")?.string == Self.start.rfc3339)
        #expect(json.value(at: "/sequence")?.int64 == 7)
        #expect(json.value(at: "/organization_id")?.uuid == organization)
        #expect(json.value(at: "/data/user_id")?.string == "x")
        #expect(!delivery.messageID.contains("."))
    }

    // MARK: - Addresses

    @Test(arguments: [
        "0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1",
        "198.19.255.255", "198.51.100.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "fe80::1", "febf::1", "fc00::1",
        "fd12:3456::1", "ff02::1", "64:ff9b::7f00:1", "2001:db8::1", "2002:7f00:1::", "2001::1", "100::1",
        "fec0::1", "::7f00:1", "4000::1", "3fff::1",
    ])
    func `refuses addresses that are not public`(text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(AddressPolicy().problem(address, isTLS: true) != nil)
        // IPv4-mapped IPv6 addresses are refused as well
        if address.bytes.count == 4 {
            let mapped = try #require(IPAddress(bytes: Array(repeating: 0, count: 10) + [0xff, 0xff] + address.bytes))
            #expect(AddressPolicy().problem(mapped, isTLS: true) != nil)
        }
    }

    @Test(arguments: [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.1", "169.253.255.255", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0",
        "223.255.255.255", "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8",
    ])
    func `public addresses require https`(text: String) throws {
        let address = try #require(IPAddress(text))
        #expect(AddressPolicy().problem(address, isTLS: true) == nil)
        #expect(AddressPolicy().problem(address, isTLS: false) == "it is not https")
    }

    @Test(arguments: [
        "::-0", "::+1", "-1::", "1:2", "::g", "1:::2", "1.2.3.04", "1.2.3.-4", "1.2.3", "::1.2.3", "::١", "",
    ])
    func `refuses texts that the system would not parse as addresses`(text: String) {
        #expect(IPAddress(text) == nil)
    }

    @Test func `an operator may allow blocks, and http for them`() throws {
        let policy = AddressPolicy(allowed: try #require(IPNetwork.list("127.0.0.0/8, fd00::/8 10.1.2.3")))
        for text in ["127.0.0.1", "127.9.9.9", "::ffff:127.0.0.1", "fd00::1", "fdff::1", "10.1.2.3"] {
            #expect(policy.problem(try #require(IPAddress(text)), isTLS: false) == nil, "\(text)")
        }
        for text in ["10.1.2.4", "128.0.0.1", "fc00::1", "169.254.169.254", "8.8.8.8"] {
            #expect(policy.problem(try #require(IPAddress(text)), isTLS: false) != nil, "\(text)")
        }
        #expect(
            AddressPolicy(allowed: try #require(IPNetwork.list("0.0.0.0/0"))).problem(
                try #require(IPAddress("10.0.0.1")),
                isTLS: false
            ) == nil
        )
        for text in ["10.0.0.0/33", "10.0.0/8", "x", "10.0.0.0/", "::/129", "10.0.0.0/8/8", "10.0.0.0/-1"] {
            #expect(IPNetwork.list(text) == nil, "\(text)")
        }
    }

    @Test func `parses addresses as the system does, or not at all`() {
        for text in [
            "1.2.3", "1.2.3.4.5", "01.2.3.4", "256.1.1.1", "1.2.3.0x4", "", ":", ":::", "1::2::3", "g::",
            "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7", "::1.2.3.4.5", "12345::", "fe80::1%eth0", "+1::", "1.2.3.4::",
            "2130706433", "0x7f000001",
        ] {
            #expect(IPAddress(text) == nil, "\(text)")
        }
        #expect(IPAddress("::ffff:1.2.3.4")?.unmapped.description == "1.2.3.4")
        #expect(IPAddress("2001:DB8::1")?.description == "2001:db8:0:0:0:0:0:1")
        #expect(IPAddress("1::")?.bytes == [0, 1] + Array(repeating: 0, count: 14))
    }

    // MARK: - URLs

    @Test func `a url keeps its path and query`() throws {
        func url(_ text: String) throws -> WebhookURL { try WebhookURL(text) }
        #expect(try url("HTTPS://Hooks.Example").text == "https://hooks.example/")
        #expect(try url("https://hooks.example/A/b/?c=D&e=%2F").text == "https://hooks.example/A/b/?c=D&e=%2F")
        #expect(try url("https://hooks.example:8443/a").port == 8_443)
        #expect(try url("https://hooks.example/a").port == 443)
        #expect(try url("http://[::1]:9/a").host == "::1")
        #expect(try url("http://[::1]:9/a").port == 9)
        #expect(try url("http://127.0.0.1/a").port == 80)
        for text in [
            "ftp://x", "https://", "https://a b", "https://u:p@host/", "https://h/#f", "https://h/?a=\"",
            "https://h/?" + String(repeating: "a", count: 2_000), "//h", "https://h:0/", "https://h:65536/",
            "https://h/?%zz\u{e4}",
        ] {
            #expect(throws: BaseURL.Malformed.self, "\(text)") { try url(text) }
        }
    }

    @Test func `refuses a url before its name is looked up, if possible`() throws {
        let allowing = AddressPolicy(allowed: try #require(IPNetwork.list("127.0.0.0/8")))
        #expect(try WebhookURL("https://hooks.example/").problem(AddressPolicy()) == nil)
        #expect(try WebhookURL("http://hooks.example/").problem(AddressPolicy()) == "must be https")
        #expect(try WebhookURL("http://hooks.example/").problem(allowing) == nil)
        #expect(try WebhookURL("http://127.0.0.1:1/").problem(allowing) == nil)
        for host in ["2130706433", "0x7f.1", "127.1", "0177.0.0.1", "0x7F000001", "10.0.0.01", "example.0x1"] {
            #expect(try WebhookURL("https://\(host)/").problem(AddressPolicy())?.contains("unusual") == true, "\(host)")
        }
        for host in ["168.63.129.16", "100.64.0.1", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"] {
            #expect(try WebhookURL("https://\(host)/").problem(AddressPolicy()) != nil, "\(host)")
        }
        for host in ["example.com", "0x.example.com", "1.example.com", "a.b1"] {
            #expect(try WebhookURL("https://\(host)/").problem(AddressPolicy()) == nil, "\(host)")
        }
        #expect(try WebhookURL("https://127.0.0.1:1/").problem(AddressPolicy())?.contains("own machine") == true)
        #expect(try WebhookURL("https://[::1]/").problem(allowing) != nil)
        #expect(try WebhookURL("https://169.254.169.254/latest").problem(allowing)?.contains("link-local") == true)
    }
}
