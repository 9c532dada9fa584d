import JSONText
import SyncModel

/// Headers in one text, as in `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, separated by commas.
struct HeaderList {
    private(set) var headers: [(name: String, value: String)] = []

    /// Reads a text, in which values can have percent-encoded characters. Nil if a part of it is not a header.
    init?(_ text: String) {
        for part in text.utf8.split(separator: UInt8(ascii: ",")) {
            let pair = part.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard pair.count == 2, PercentEncoding.isWellFormed(pair[1]),
                let value = String(validating: PercentEncoding.decoded(pair[1]), as: UTF8.self)?.trimmed,
                case let name = String(Substring(pair[0])).trimmed, HeaderField.isName(name),
                UpstreamRequest.canCarry(value)
            else { return nil }
            headers.append((name, value))
        }
        if headers.isEmpty { return nil }
    }
}
