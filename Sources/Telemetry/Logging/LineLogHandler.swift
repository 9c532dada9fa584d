import Glibc
package import Logging
import Synchronization

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
    ///   - label: the logger's label.
    ///   - colours: whether the level of a text line is colored; nil for the default of the writer.
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

/// Writes whole lines to a file descriptor.
///
/// Each line is written immediately, by one write(2). As a result, a crash loses no lines, and log collectors never
/// read half a line. A lock prevents two threads from mixing their lines. The kernel would prevent this in pipes only
/// for lines of up to 4 KiB.
package final class LineWriter: Sendable {
    package static let standardOutput = LineWriter(fileDescriptor: 1)

    package static let standardError = LineWriter(fileDescriptor: 2)

    private let descriptor: Mutex<Int32>

    /// - Parameter fileDescriptor: the descriptor, which the caller closes after the last line.
    package init(fileDescriptor: Int32) {
        self.descriptor = Mutex(fileDescriptor)
    }

    /// Whether the descriptor is a terminal, where a person may be reading.
    package var isTerminal: Bool {
        descriptor.withLock { isatty($0) == 1 }
    }

    /// Whether lines have colors: on a terminal, unless `NO_COLOR` is set.
    var showsColours: Bool { isTerminal && getenv("NO_COLOR") == nil }

    /// Writes the bytes, which end with a line feed. Bytes that the descriptor refuses are dropped, because neither a
    /// full disk nor a closed pipe may stop the gateway.
    func write(_ line: [UInt8]) {
        descriptor.withLock { descriptor in
            line.withUnsafeBytes { bytes in
                var rest = bytes[...]
                while !rest.isEmpty {
                    let written = systemWrite(descriptor, UnsafeRawBufferPointer(rebasing: rest))
                    if written > 0 {
                        rest = rest.dropFirst(written)
                    } else if written < 0, errno == EAGAIN {
                        // Another process made the descriptor non-blocking. Wait until the descriptor accepts more
                        // bytes.
                        var ready = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                        guard poll(&ready, 1, 1_000) > 0 else { return }
                    } else if written == 0 || errno != EINTR {
                        return
                    }
                }
            }
        }
    }
}

private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    write(descriptor, bytes.baseAddress, bytes.count)
}

package enum LogFormat: String, Sendable, CaseIterable {
    /// One JSON object per line, for log collectors. See ``JSONLogLine``.
    case json
    /// Text for a person. See ``TextLogLine``.
    case text
}
