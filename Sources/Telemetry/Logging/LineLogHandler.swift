package import Logging

/// Writes a line for each event.
package struct LineLogHandler: LogHandler {
    package var logLevel: Logger.Level
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?

    private let label: String
    private let format: LogFormat
    private let writer: LineWriter
    private let colours: Bool

    /// - Parameters:
    ///   - label: the logger's.
    ///   - colours: whether to colour the level of a text; nil asks the terminal.
    package init(
        _ label: String,
        _ format: LogFormat,
        level: Logger.Level = .info,
        metadataProvider: Logger.MetadataProvider? = nil,
        writer: LineWriter = .standardOutput,
        colours: Bool? = nil
    ) {
        self.label = label
        self.format = format
        logLevel = level
        self.metadataProvider = metadataProvider
        self.writer = writer
        self.colours = colours ?? writer.showsColours
    }

    package subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        let metadata = event.metadata(over: metadata, provider: metadataProvider)
        switch format {
        case .json: writer.write(JSONLogLine(event, metadata, logger: label).bytes)
        case .text: writer.write(TextLogLine(event, metadata, colours: colours).bytes)
        }
    }
}
