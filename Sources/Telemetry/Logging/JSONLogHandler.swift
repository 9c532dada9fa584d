package import Logging

/// Writes one JSON object a line: `time` (RFC 3339, UTC, milliseconds), `level`, `message`, `logger`, and each
/// metadata key as a further member.
///
/// Numbers and truth values given as `.stringConvertible` stay JSON numbers and booleans; dictionaries and arrays
/// keep their shape. A metadata key that is one of the four names above gets an underscore at its end.
package struct JSONLogHandler: LogHandler {
    package var logLevel: Logger.Level = .info
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let writer: LineWriter

    package init(
        label: String,
        metadataProvider: Logger.MetadataProvider? = nil,
        writer: LineWriter = .standardOutput
    ) {
        self.label = label
        self.metadataProvider = metadataProvider
        self.writer = writer
    }

    package subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var line = JSONLogLine()
        line.add("time", time: .now())
        line.add("level", event.level.rawValue)
        line.add("message", event.message.description)
        line.add("logger", label)
        for (key, value) in event.metadata(over: metadata, provider: metadataProvider) {
            line.add(Self.reserved.contains(key) ? key + "_" : key, value)
        }
        line.finish()
        writer.write(line.bytes)
    }

    private static let reserved: [String] = ["time", "level", "message", "logger"]
}
