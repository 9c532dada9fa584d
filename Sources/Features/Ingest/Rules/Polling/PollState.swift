import Crypto
import JSONText
package import SyncModel

/// The state of a poller, which is stored between its runs.
package struct PollState: Sendable, Hashable {
    /// The position that completed passes have reached; nil before the end of the first pass, and if the position is
    /// unknown.
    package internal(set) var since: SinceValue?
    /// The validators of a list that had a single page and was read completely. The validators show whether the list
    /// has changed.
    var validators: Validators?
    /// The pass that is in progress.
    var pass: Pass?
    /// A condition that an operator should see although polling continues.
    var notice: Notice?

    struct Validators: Sendable, Hashable {
        /// The path that was requested.
        @Exact private(set) var path: String
        @Exact private(set) var etag: String?
        @Exact private(set) var lastModified: String?
    }

    /// One reading of all pages, from the first to the last.
    struct Pass: Sendable, Hashable {
        /// The page to request next.
        var place: Place
        /// The time at which the pass's first page was requested.
        let beganAt: Timestamp
        /// The number of pages that were read and ingested.
        var pages = 0
        var greatest: SinceValue?
        var items = 0
        /// The number of refused events on the pages that were read.
        var refused = 0
        var places: RepetitionDetector?
        var contents: RepetitionDetector?
    }

    /// How the gateway requests a page.
    enum Place: Sendable, Hashable {
        case link(ByteExactString)
        case cursor(ByteExactString)
        case number(Int)
    }

    struct Notice: Sendable, Hashable {
        let at: Timestamp
        @Exact private(set) var text: String
    }

    package init(since: SinceValue? = nil) {
        self.since = since
    }

    /// The time for which a notice is shown, in seconds.
    static let noticeSeconds: Double = 86_400

    /// Returns the text of the notice; nil if there is no notice, or if it is older than ``noticeSeconds``.
    package func warning(at now: Timestamp) -> String? {
        guard let notice, notice.at.adding(seconds: Self.noticeSeconds) > now else { return nil }
        return "\(notice.at.rfc3339): \(notice.text)"
    }

    /// Whether the poller is between two pages of a pass.
    package var isInPass: Bool { pass != nil }

    // MARK: - The stored form

    /// Reads the stored state of a worker.
    ///
    /// If the state was written under other settings, only its `since` and its notice are used.
    ///
    /// - Parameter fingerprint: the fingerprint of the present settings and upstream.
    package init(stored: [UInt8]?, _ settings: PollerSettings, fingerprint: String) {
        guard let stored, let root = try? JSONTree(parsing: stored).root else { return }
        if let since = settings.since, let value = root["since"].flatMap(SinceValue.init(stored:)) {
            self.since = value.fitting(since.form)
        }
        if let text = root["notice"]?["text"]?.string,
            let at = root["notice"]?["at"]?.timestamp
        {
            notice = Notice(at: at, text: text)
        }
        guard root["fingerprint"]?.string == fingerprint else { return }
        if let found = root["unchanged"], let path = found["path"]?.string {
            validators = Validators(
                path: path,
                etag: found["etag"]?.string,
                lastModified: found["last_modified"]?.string
            )
        }
        pass = root["pass"].flatMap { Pass(stored: $0, settings) }
    }

    /// The stored form. Operators see parts of it.
    ///
    /// - Parameter fingerprint: the fingerprint of the settings and the upstream; nil for a state that does not depend
    ///   on them.
    package func json(fingerprint: String?) -> [UInt8] {
        JSONWriter.object { writer in
            if let fingerprint { writer.member("fingerprint", fingerprint) }
            if let since {
                writer.name("since")
                since.write(to: &writer)
            }
            if let validators {
                writer.name("unchanged")
                writer.beginObject()
                writer.member("path", validators.path)
                if let etag = validators.etag { writer.member("etag", etag) }
                if let lastModified = validators.lastModified { writer.member("last_modified", lastModified) }
                writer.endObject()
            }
            if let pass {
                writer.name("pass")
                pass.write(to: &writer)
            }
            if let notice {
                writer.name("notice")
                writer.beginObject()
                writer.member("at", notice.at.rfc3339)
                writer.member("text", notice.text)
                writer.endObject()
            }
        }
    }

    var json: [UInt8] { json(fingerprint: nil) }

    /// Returns a hash of the settings and the base URL.
    ///
    /// If the hash changes, requests or the interpretation of responses may have changed.
    package static func fingerprint(of settings: PollerSettings, base: BaseURL) -> String {
        var writer = JSONWriter()
        writer.beginObject()
        settings.writeMembers(to: &writer)
        writer.endObject()
        return RepetitionDetector.digest(writer.bytes + [0] + Array(base.text.utf8))
    }
}

extension PollState.Pass {
    init?(stored value: JSONValue, _ settings: PollerSettings) {
        guard let place = value["place"].flatMap({ PollState.Place(stored: $0) }),
            let beganAt = value["began_at"]?.timestamp,
            let pages = value["pages"]?.int64, (0...Int64(PollPlanner.passPages)).contains(pages)
        else { return nil }
        self.place = place
        self.beganAt = beganAt
        self.pages = Int(pages)
        if let since = settings.since {
            greatest = value["greatest"].flatMap(SinceValue.init(stored:))?.fitting(since.form)
        }
        items = Int(clamping: value["items"]?.int64 ?? 0)
        refused = Int(clamping: value["refused"]?.int64 ?? 0)
        places = RepetitionDetector(stored: value["places"])
        contents = RepetitionDetector(stored: value["contents"])
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.name("place")
        place.write(to: &writer)
        writer.member("began_at", beganAt.rfc3339)
        writer.member("pages", pages)
        if let greatest {
            writer.name("greatest")
            greatest.write(to: &writer)
        }
        writer.member("items", items)
        writer.member("refused", refused)
        if let places {
            writer.name("places")
            places.write(to: &writer)
        }
        if let contents {
            writer.name("contents")
            contents.write(to: &writer)
        }
        writer.endObject()
    }
}

extension PollState.Place {
    init?(stored value: JSONValue) {
        if let path = value["link"]?.string {
            self = .link(ByteExactString(path))
        } else if let cursor = value["cursor"]?.string {
            self = .cursor(ByteExactString(cursor))
        } else if let number = value["number"]?.int64 {
            self = .number(Int(clamping: number))
        } else {
            return nil
        }
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        switch self {
        case .link(let path): writer.member("link", path.string)
        case .cursor(let cursor): writer.member("cursor", cursor.string)
        case .number(let number): writer.member("number", number)
        }
        writer.endObject()
    }
}

/// Computes the times of a poller's requests.
///
/// Each source has its own back-off. After failures the source is polled less often. Failures of requests that are
/// forwarded to the same upstream do not affect this back-off.
package enum PollSchedule {
    /// The longest pause after failures, in seconds before jitter.
    package static let longestPause: Double = 900
    /// The pause after the first failure, in seconds. If the poller's interval is shorter, the interval is used.
    package static let firstPause: Double = 30

    /// Returns the time of the next request after a failure.
    ///
    /// - Parameters:
    ///   - failures: the number of consecutive failures, including the last failure.
    ///   - notBefore: the earliest time at which the upstream accepts requests.
    ///   - jitter: 0 to 1; adds up to a fifth of the pause.
    package static func retry(
        _ settings: PollerSettings,
        after failures: Int,
        now: Timestamp,
        notBefore: Timestamp?,
        jitter: Double
    ) -> Timestamp {
        let first = min(firstPause, Double(settings.intervalSeconds))
        let doubled = first * Double(UInt64(1) << UInt64(min(max(failures - 1, 0), 40)))
        let due = now.adding(seconds: min(longestPause, doubled) * (1 + 0.2 * min(max(jitter, 0), 1)))
        return notBefore.map { max($0, due) } ?? due
    }
}

// MARK: - RepetitionDetector

/// Detects a cycle in a sequence, and stores only one value of the sequence.
///
/// The algorithm is from R. Brent, "An improved Monte Carlo factorization algorithm". To detect a cycle, the algorithm
/// reads at most three times as many values as the cycle and the part before the cycle have in total.
struct RepetitionDetector: Sendable, Hashable {
    @Exact private var mark: String
    /// The number of values to read until the next value is stored.
    private var left = 1
    private var power = 1

    /// - Parameter first: the digest of the sequence's first value.
    init(_ first: String) {
        mark = first
    }

    /// Adds the digest of the next value; returns true if a cycle was detected.
    mutating func repeats(_ digest: String) -> Bool {
        if digest == mark { return true }
        left -= 1
        if left <= 0 {
            mark = digest
            power = min(power * 2, 1 << 30)
            left = power
        }
        return false
    }

    static func digest(_ value: some Sequence<UInt8>) -> String {
        var text = ""
        for byte in SHA256.hash(data: Array(value)).prefix(12) {
            if byte < 16 { text += "0" }
            text += String(byte, radix: 16)
        }
        return text
    }

    init?(stored value: JSONValue?) {
        guard let mark = value?["mark"]?.string, let left = value?["left"]?.int64, let power = value?["power"]?.int64,
            (1...1 << 30).contains(left), (1...1 << 30).contains(power)
        else { return nil }
        self.mark = mark
        self.left = Int(left)
        self.power = Int(power)
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("mark", mark)
        writer.member("left", left)
        writer.member("power", power)
        writer.endObject()
    }
}
