import Synchronization

/// The committed changes of a server's other sessions, from a logical replication slot.
///
/// The slot uses `pgoutput`. A separate thread reads ahead up to its memory limit, and reports the reader's position to
/// the server, which keeps its log from this position on.
///
/// After a connection was lost, a new stream begins after the last confirmed position. So a reader can receive
/// unconfirmed changes again.
public final class ReplicationStream: Sendable {
    /// The slot and the publications to read.
    public struct Source: Sendable {
        /// The slot, created for `pgoutput`. Only one stream at a time can read it; the server refuses a second one
        /// (55006).
        public var slot: String
        public var publications: [String]
        /// The maximum number of bytes of messages that are read ahead.
        ///
        /// A larger message is only read when no other message waits.
        public var maximumBytesAhead = 4 << 20
        /// The maximum size of a message in bytes. A larger message ends the stream.
        ///
        /// While a message is incomplete, its size is the number of bytes that the operating system reports as
        /// received.
        public var maximumMessageBytes = 64 << 20
        /// The maximum interval between reports of the reader's position to the server.
        ///
        /// The server disconnects a silent reader after its `wal_sender_timeout`, a minute by default.
        public var statusInterval: Duration = .seconds(10)
        /// Whether a stream without unconfirmed changes confirms everything that the server has sent, such as changes
        /// of other tables.
        ///
        /// Set it to false if the reader must store each position before the server receives it. The reader then
        /// confirms ``ReplicationStream/idlePosition`` itself.
        public var confirmsIdle = true

        public init(slot: String, publications: [String]) {
            self.slot = slot
            self.publications = publications
        }
    }

    /// A message with its position in the log.
    ///
    /// Entries are in commit order of their transactions, so positions may decrease from one transaction to the next.
    /// Those of one row only increase.
    public struct Entry: Sendable, Hashable {
        public let position: LogPosition
        public let message: ReplicationMessage
    }

    let box: ReplicationBox

    private init(_ box: ReplicationBox) { self.box = box }

    deinit { box.close() }

    /// Connects, and begins at the position of the slot.
    ///
    /// - Throws: `unavailable` if no connection can be made, `server` if the slot or a publication is refused (42704:
    ///   it does not exist; 55006: another session reads the slot; 42501: the role lacks the privilege), `cancelled`.
    public static func open(
        _ configuration: ConnectionConfiguration,
        _ source: Source
    ) async throws(PostgresError) -> ReplicationStream {
        guard let box = ReplicationBox() else { throw PostgresError(.unavailable, "no file descriptor left") }
        let stream = ReplicationStream(box)
        let failure = await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<PostgresError?, Never>) in
                let isStarted = DedicatedThread.start("pg-replication") {
                    ReplicationDriver.run(configuration, source, box) { continuation.resume(returning: $0) }
                }
                if !isStarted { continuation.resume(returning: PostgresError(.unavailable, "no thread left")) }
            }
        } onCancel: {
            box.close()
        }
        if let failure { throw Task.isCancelled ? PostgresError(.cancelled, "while connecting") : failure }
        return stream
    }

    /// Returns the entries since the last call, in order. It waits until there is at least one.
    ///
    /// Only one task at a time may wait.
    ///
    /// - Throws: `connectionLost` or `server` after the stream has ended, `decoding` for invalid messages, `cancelled`.
    public func next() async throws(PostgresError) -> [Entry] {
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { box.take($0) }
        } onCancel: {
            box.giveUpWaiting()
        }
        return try outcome.get()
    }

    /// Confirms that the reader has stored everything up to a position.
    ///
    /// The position is the end of a transaction, from its `commit`. The server may discard the log before it, and no
    /// later stream of the slot begins before it.
    public func confirm(_ position: LogPosition) { box.confirm(position) }

    /// The position up to which the server has sent its log, if the reader has confirmed every change before it.
    ///
    /// It is nil while changes are unconfirmed or wait for the reader.
    public var idlePosition: IdlePosition? { box.idlePosition }

    /// A position that a reader without unconfirmed changes may confirm.
    public struct IdlePosition: Sendable, Hashable {
        public let position: LogPosition
        /// Whether the server requested a status message since the last confirmation. A server that shuts down waits
        /// until everything that it has sent is confirmed.
        public let isRequested: Bool
    }

    /// Ends the stream, after the reader's position was reported to the server. After that, `next` throws.
    public func close() { box.close() }

    /// Ends the stream and returns when its thread has ended.
    ///
    /// After this call, the slot is free, as far as the client can detect.
    public func closeAndWait() async {
        box.close()
        await box.waitForEnd()
    }
}
