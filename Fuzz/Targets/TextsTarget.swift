import Foundation
import JSONText

@testable import SyncModel

/// Short texts of headers, queries and settings; the first byte selects the kind.
enum TextsTarget {
    private static let now = Timestamp(microseconds: 1_795_000_000_000_000)

    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first, let text = String(validating: bytes.dropFirst(), as: UTF8.self) else { return }
        switch first % 7 {
        case 0: retryAfter(text)
        case 1: baseURL(text)
        case 2: cursors(text)
        case 3: preferences(text)
        case 4: moments(text)
        case 5: uuids(text)
        default: headers(text)
        }
    }

    private static func retryAfter(_ text: String) {
        let moment = Timestamp(retryAfter: text, now: now)
        if let moment { expect((now...now.adding(seconds: 86_400)).contains(moment), "\(moment)") }
        if let seconds = UInt64(text), text.utf8.first.map({ (48...57).contains($0) }) == true {
            expect(moment == now.adding(seconds: Double(min(seconds, 86_400))), "\(String(describing: moment))")
        }
    }

    private static func baseURL(_ text: String) {
        guard let normal = try? BaseURL(text).text else { return }
        let again = try? BaseURL(normal).text
        expect(again == normal, "the normal form is refused, or has another: \(normal)")
        guard let url = URLComponents(string: normal), let host = url.host, !host.isEmpty else {
            return expect(false, "other parsers find no URL: \(normal)")
        }
        expect(url.user == nil && url.query == nil && url.fragment == nil, "more than host and path: \(normal)")
        let authority = normal.split(separator: "/", maxSplits: 2, omittingEmptySubsequences: false)[2]
        expect(authority.hasPrefix(host), "other parsers find another host: \(host) in \(normal)")
        let target = try? RequestTarget(UpstreamSettings(baseURL: text), path: "/contacts")
        expect(target?.url == normal + "/contacts", "leads to \(target?.url ?? "nowhere")")
    }

    private static func cursors(_ text: String) {
        if let cursor = FeedCursor(text) { expect(FeedCursor(cursor.text) == cursor, cursor.text) }
        if let cursor = EventCursor(text) { expect(EventCursor(cursor.text) == cursor, cursor.text) }
        if let cursor = MappingCursor(text) { expect(MappingCursor(cursor.text) == cursor, cursor.text) }
    }

    private static func preferences(_ text: String) {
        var count = 0
        for preference in PreferenceList(text) {
            count += 1
            expect(!preference.name.isEmpty, "a preference without a name")
            expect(preference.name == preference.name.lowercased(), "\(preference.name) is not in lower case")
        }
        expect(count <= text.utf8.count / 2 + 1, "more preferences than there is text for")
    }

    private static func moments(_ text: String) {
        guard let moment = Timestamp(rfc3339: text) else { return }
        let written = moment.rfc3339
        expect(written.utf8.count == 24, written)
        guard let again = Timestamp(rfc3339: written) else { return expect(false, "\(written) is not parsed") }
        expect(again.rfc3339 == written, "\(written) is parsed as \(again.rfc3339)")
        expect((0..<1_000).contains(moment.microseconds - again.microseconds), "\(written) is another time")
    }

    private static func uuids(_ text: String) {
        // Foundation accepts plus signs as digits, and hyphens in other places
        let other = UUID(uuidString: text).flatMap { $0.uuidString.lowercased() == text.lowercased() ? $0 : nil }
        let uuid = UUID(parsing: text)
        expect(uuid == other, "\(String(describing: uuid)) and \(String(describing: other))")
        if let uuid { expect(uuid.lowercased == text.lowercased(), uuid.lowercased) }
    }

    private static func headers(_ text: String) {
        if HeaderField.isName(text) {
            expect(text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ":") }, "a name of a header")
        }
        if HeaderField.isValue(text) {
            expect(!text.utf8.contains { $0 == 13 || $0 == 10 || $0 == 0 }, "a value of a header")
        }
        if EntityType.isValidName(text) {
            expect(text.utf8.allSatisfy { $0 > 0x2c && $0 < 0x7f }, "a name of a type")
        }
        let encoded = UpstreamRequest.encoded(path: text)
        expect(encoded.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f }, "not ASCII: \(encoded)")
        expect(UpstreamRequest.encoded(path: encoded) == encoded, "encoded twice: \(encoded)")
    }
}
