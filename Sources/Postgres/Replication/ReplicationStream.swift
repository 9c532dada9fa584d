import Synchronization

/// The committed changes of a server's other sessions, from a logical replication slot.
///
/// The slot uses `pgoutput`. A separate thread reads ahead up to its memory limit. The thread reports the reader's
/// position to the server, and the server keeps its log from this position on.
///
/// If the connection was lost, the next stream begins after the last confirmed position. A reader can therefore receive
/// unconfirmed changes again.
public final class ReplicationStream: Sendable {
    /// The slot and the publications to read.
    public struct Source: Sendable {
        /// The name of the slot, which was created for `pgoutput`. Only one stream at a time can read a slot. The
        /// server refuses a second stream (55006).
        public var slot: String
        public var publications: [String]
        /// The maximum number of bytes of messages that are read ahead.
        ///
        /// A message that is larger than this limit is read only when no other message waits.
        public var maximumBytesAhead = 4 << 20
        /// The maximum size of a message in bytes. A larger message ends the stream.
        ///
        /// If a message has not arrived completely, its size is the number of bytes that the operating system has
        /// received so far.
        public var maximumMessageBytes = 64 << 20
        /// The maximum interval between reports of the reader's position to the server.
        ///
        /// The server disconnects a silent reader after its `wal_sender_timeout`, a minute by default.
        public var statusInterval: Duration = .seconds(10)
        /// Whether the stream itself confirms the server's position while the reader has no unconfirmed changes. The
        /// server can then discard its log even if it contains only changes of other tables.
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
    /// Entries are in the commit order of their transactions, so positions may decrease from one transaction to the
    /// next. The positions of entries about the same row only increase.
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

    /// Returns the entries since the last call, in order, and waits until there is at least one entry.
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
    /// The position is the end of a transaction, as in ``ReplicationMessage/commit(end:)``. The server may discard the
    /// log before this position, and no later stream of the slot begins before this position.
    public func confirm(_ position: LogPosition) { box.confirm(position) }

    /// The position up to which the server has sent its log, if the reader has confirmed every change before this
    /// position.
    ///
    /// Nil while changes are unconfirmed or wait for the reader.
    public var idlePosition: IdlePosition? { box.idlePosition }

    /// A position that a reader without unconfirmed changes may confirm.
    public struct IdlePosition: Sendable, Hashable {
        public let position: LogPosition
        /// Whether the server requested a status message since the last confirmation. A server that shuts down waits
        /// until everything that it has sent is confirmed.
        public let isRequested: Bool
    }

    /// Reports the reader's position to the server, and ends the stream. Later calls of `next` throw.
    public func close() { box.close() }

    /// Ends the stream and returns when its thread has ended.
    ///
    /// After this call, the slot is free, as far as the client can detect.
    public func closeAndWait() async {
        box.close()
        await box.waitForEnd()
    }
}
