import CLibPQ
import Glibc

/// The work of a stream's thread: it connects, requests the stream, and reads the stream to its end. No other thread
/// uses this object.
final class ReplicationDriver {
    private let handle: LibPQConnection
    private let configuration: ConnectionConfiguration
    private let source: ReplicationStream.Source
    private let box: ReplicationBox
    /// The position up to which the server has sent everything for this stream.
    private var sent = LogPosition.zero
    /// The position that was last reported to the server.
    private var reported = LogPosition.zero
    private var isAnswerDue = false
    /// The number of bytes that were received of a message that is still incomplete.
    private var bytesOfPart = 0

    private init(
        _ configuration: ConnectionConfiguration,
        _ source: ReplicationStream.Source,
        _ box: ReplicationBox
    ) throws(PostgresError) {
        self.configuration = configuration
        self.source = source
        self.box = box
        // these settings fix the format of values, which must not depend on the server, the database or the role
        handle = try LibPQConnection(
            connecting: configuration,
            [
                ("replication", "database"),
                (
                    "options",
                    "-c datestyle=ISO -c timezone=UTC -c intervalstyle=iso_8601 -c extra_float_digits=1 -c bytea_output=hex"
                ),
            ]
        )
    }

    /// Runs the thread until it ends. `opened` is called once, when the stream runs or has failed.
    static func run(
        _ configuration: ConnectionConfiguration,
        _ source: ReplicationStream.Source,
        _ box: ReplicationBox,
        opened: (PostgresError?) -> Void
    ) {
        var isOpen = false
        // Because this is a separate function, libpq's resources are freed before the end is announced.
        func live() -> PostgresError {
            do throws(PostgresError) {
                let driver = try ReplicationDriver(configuration, source, box)
                try driver.begin()
                isOpen = true
                opened(nil)
                try driver.serve()
                return PostgresError(.connectionLost, "the stream is closed")
            } catch {
                return error
            }
        }
        let error = live()
        box.end(error)
        if !isOpen { opened(error) }
    }

    // MARK: - Beginning

    private func begin() throws(PostgresError) {
        try handle.connect(within: configuration.connectTimeout) { events, deadline throws(PostgresError) in
            try wait(for: events, until: deadline)
        }
        let publications = source.publications.map(Self.quotedName).joined(separator: ",")
        let command = """
            START_REPLICATION SLOT \(Self.quotedName(source.slot)) LOGICAL \(LogPosition.zero) \
            (proto_version '1', publication_names \(Self.quotedText(publications)))
            """
        guard handle.send(script: command) else { throw lost() }
        let deadline = ContinuousClock.now + configuration.connectTimeout
        while true {
            guard let isMore = handle.flush() else { throw lost() }
            if !handle.isBusy {
                guard let result = handle.nextResult() else { throw lost() }
                if result.isCopyBoth { return }
                throw result.outcome == .failure ? result.error(statement: "START_REPLICATION", index: nil) : lost()
            }
            if ContinuousClock.now >= deadline {
                throw PostgresError(.unavailable, "the server did not begin the stream in time")
            }
            let isReady = try wait(for: isMore ? POLLIN | POLLOUT : POLLIN, until: deadline)
            if isReady, !handle.receive() { throw lost() }
        }
    }

    /// Returns an identifier for SQL and for `publication_names`.
    private static func quotedName(_ name: String) -> String { "\"\(name.replacing("\"", with: "\"\""))\"" }

    /// Returns a literal of the replication grammar, in which backslashes have no special meaning.
    private static func quotedText(_ text: String) -> String { "'\(text.replacing("'", with: "''"))'" }

    // MARK: - Serving

    /// Reads messages and reports the position until the stream is closed.
    private func serve() throws(PostgresError) {
        var nextStatus = ContinuousClock.now + source.statusInterval
        while !box.isClosing {
            let hasRoom = box.bytesAhead < source.maximumBytesAhead
            if hasRoom {
                bytesOfPart += handle.bytesWaiting
                guard handle.receive() else { throw lost() }
                try read()
                guard bytesOfPart <= source.maximumMessageBytes else { throw tooLarge() }
            }
            let progress = self.progress
            if isAnswerDue || progress > reported || ContinuousClock.now >= nextStatus {
                try report(progress)
                nextStatus = ContinuousClock.now + source.statusInterval
            }
            guard let isMore = handle.flush() else { throw lost() }
            // while the buffer is full, nothing is read, so that the server has to wait for the reader
            let events = (box.bytesAhead < source.maximumBytesAhead ? POLLIN : 0) | (isMore ? POLLOUT : 0)
            _ = try wait(for: events, until: nextStatus, isServing: true)
        }
        // the last report, if the socket accepts it
        try report(progress)
        _ = handle.endCopy()
        _ = handle.flush()
    }

    private var progress: LogPosition {
        box.progress(sent: sent, isRequested: isAnswerDue, confirmsIdle: source.confirmsIdle)
    }

    /// Reads arrived messages until the buffer is full.
    private func read() throws(PostgresError) {
        while box.bytesAhead < source.maximumBytesAhead {
            switch try handle.nextCopyPart({ part throws(PostgresError) in try take(part) }) {
            case .part: bytesOfPart = 0
            case .nothing: return
            case .end:
                guard let result = handle.nextResult(), result.outcome == .failure else { throw lost() }
                throw result.error(statement: "START_REPLICATION", index: nil)
            }
        }
    }

    /// Reads one message of the stream.
    ///
    /// See "Streaming Replication Protocol" in PostgreSQL's manual.
    private func take(_ part: UnsafeRawBufferPointer) throws(PostgresError) {
        // libpq may have read more bytes of the message than the operating system reported before
        guard part.count <= source.maximumMessageBytes else { throw tooLarge() }
        var decoder = ReplicationDecoder(UnsafeRawBufferPointer(rebasing: part.dropFirst()))
        switch part.first {
        case UInt8(ascii: "w"):
            let (position, end) = (try decoder.position(), try decoder.position())
            // the time of sending
            _ = try decoder.integer(Int64.self)
            let message = try ReplicationDecoder.message(UnsafeRawBufferPointer(rebasing: part.dropFirst(25)))
            box.put(.init(position: position, message: message), bytes: part.count)
            sent = max(sent, end)
        case UInt8(ascii: "k"):
            sent = max(sent, try decoder.position())
            _ = try decoder.integer(Int64.self)
            if try decoder.integer(UInt8.self) == 1 { isAnswerDue = true }
        default:
            throw PostgresError(.decoding, "the server sent data that are not a message of a replication stream")
        }
    }

    private func report(_ progress: LogPosition) throws(PostgresError) {
        var bytes: [UInt8] = [UInt8(ascii: "r")]
        func add<Value: FixedWidthInteger>(_ value: Value) {
            withUnsafeBytes(of: value.bigEndian) { bytes.append(contentsOf: $0) }
        }
        // the positions up to which data were written, flushed and applied: all three are the confirmed position,
        // because data that the reader has not confirmed may be lost at any moment
        for _ in 0..<3 { add(progress.bytes) }
        var now = timespec()
        clock_gettime(CLOCK_REALTIME, &now)
        add(PostgresTimestamp(microseconds: Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1_000).wire)
        add(UInt8(0))
        guard handle.putCopyPart(bytes) else { throw lost() }
        (reported, isAnswerDue) = (progress, false)
    }

    /// Waits for the socket, a signal or the deadline. Returns whether the socket is ready.
    private func wait(
        for events: Int32,
        until deadline: ContinuousClock.Instant,
        isServing: Bool = false
    ) throws(PostgresError) -> Bool {
        let (isReady, isSignalled) = handle.wait(for: events, or: box.wakeUp, until: deadline)
        if isSignalled { box.wakeUp.clear() }
        if box.isClosing, !isServing { throw PostgresError(.unavailable, "closed while connecting") }
        return isReady
    }

    private func tooLarge() -> PostgresError {
        let limit = "\(source.maximumMessageBytes >> 20) MiB"
        return PostgresError(
            .decoding,
            "a change is larger than \(limit); leave large columns out of the publication"
        )
    }

    private func lost() -> PostgresError { PostgresError(.connectionLost, handle.message) }
}

/// COPY in both directions, the mode of a replication stream.
extension LibPQConnection {
    enum CopyStep {
        case part, nothing
        /// The server has ended the stream, or the connection is lost. The next result distinguishes these cases.
        case end
    }

    /// Passes the next part to `body`, if one has arrived.
    func nextCopyPart(
        _ body: (UnsafeRawBufferPointer) throws(PostgresError) -> Void
    ) throws(PostgresError) -> CopyStep {
        var start: UnsafeMutablePointer<CChar>?
        let count = PQgetCopyData(connection, &start, 1)
        defer { PQfreemem(start) }
        guard count > 0 else { return count == 0 ? .nothing : .end }
        try body(UnsafeRawBufferPointer(start: start, count: Int(count)))
        return .part
    }

    /// Buffers a part to send; returns false if the connection is lost.
    func putCopyPart(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { part in
            let start = part.bindMemory(to: CChar.self).baseAddress
            return PQputCopyData(connection, start, Int32(clamping: part.count)) == 1
        }
    }

    /// The number of bytes that the operating system has received and libpq has not read yet. The bytes may be
    /// encrypted.
    var bytesWaiting: Int {
        var count: Int32 = 0
        return ioctl(socket, UInt(FIONREAD), &count) == 0 ? Int(count) : 0
    }

    /// Ends the client's part of the stream.
    func endCopy() -> Bool { PQputCopyEnd(connection, nil) == 1 }
}
