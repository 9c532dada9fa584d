import Synchronization

/// Commits of other sessions of a server, from a logical replication slot.
///
/// The slot uses `pgoutput`. A separate thread reads ahead up to its memory limit, and reports the reader's position to
/// the server, which keeps its log from this position on.
///
/// After a lost connection, a new stream begins after the last confirmed position. A reader therefore receives
/// unconfirmed changes again.
public final class ReplicationStream: Sendable {
    /// The slot and the publications to read.
    public struct Source: Sendable {
        /// The slot, created for `pgoutput`. Only one stream at a time reads it: the server refuses a second stream
        /// (55006).
        public var slot: String
        public var publications: [String]
        /// The maximum number of bytes of messages that are read ahead.
        ///
        /// A larger message is read alone.
        public var maximumBytesAhead = 4 << 20
        /// The maximum size of a message in bytes, as far as the system reports its bytes.
        ///
        /// The stream ends if a server sends a larger message.
        public var maximumMessageBytes = 64 << 20
        /// The maximum interval between reports of the reader's position to the server.
        ///
        /// The server disconnects a silent reader after its `wal_sender_timeout`, a minute by default.
        public var statusInterval: Duration = .seconds(10)
        /// Whether a stream without unconfirmed changes confirms what the server has sent.
        ///
        /// For example, the server may have sent changes of other tables. Set it to false if the reader must store each
        /// position before the server receives it; the reader then confirms ``ReplicationStream/idlePosition`` itself.
        public var confirmsIdle = true

        public init(slot: String, publications: [String]) {
            self.slot = slot
            self.publications = publications
        }
    }

    /// A message with its position in the log.
    ///
    /// The changes of a row are in order.
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

    /// Returns the entries since the last call, in order; waits until there is at least one.
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

    /// Confirms that everything up to a position is stored elsewhere.
    ///
    /// The position is the end of a transaction, from its `commit`. The server may discard the log before it, and no
    /// later stream of the slot begins before it.
    public func confirm(_ position: LogPosition) { box.confirm(position) }

    /// The position up to which the server has sent its log, if all is confirmed.
    ///
    /// The reader has confirmed every change before it. Nil while changes wait or are unconfirmed.
    public var idlePosition: IdlePosition? { box.idlePosition }

    /// A position that a reader without unconfirmed changes may confirm.
    public struct IdlePosition: Sendable, Hashable {
        public let position: LogPosition
        /// Whether the server requested a status message since the last confirmation. A server that shuts down waits
        /// for the confirmation of everything that it has sent.
        public let isRequested: Bool
    }

    /// Ends the stream. After that, `next` throws.
    ///
    /// The reader's position is reported to the server first.
    public func close() { box.close() }

    /// Ends the stream and returns when its thread has ended.
    ///
    /// As far as the client can detect, the slot is free after this call.
    public func closeAndWait() async {
        box.close()
        await box.waitForEnd()
    }
}
