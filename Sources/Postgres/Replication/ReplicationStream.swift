import Synchronization

/// Commits of other sessions of a server, from a logical replication slot.
///
/// The slot uses `pgoutput`. A separate thread reads ahead as far as its memory allows, and reports to the server how
/// far the reader has come: the server keeps its log from there. After a connection is lost, a new stream begins behind
/// what was confirmed, so a reader receives again what it had taken and not confirmed.
public final class ReplicationStream: Sendable {
    /// The slot and the publications to read.
    public struct Source: Sendable {
        /// The slot, made for `pgoutput`. One stream at a time reads it: the server refuses a second one (55006).
        public var slot: String
        public var publications: [String]
        /// How many bytes of messages are read ahead.
        ///
        /// A message that is larger than all of that is read alone.
        public var maximumBytesAhead = 4 << 20
        /// How large a message may be, in bytes, as far as the system reports its bytes.
        ///
        /// The stream ends if a server sends more.
        public var maximumMessageBytes = 64 << 20
        /// How often the reader's position is reported to the server, in any case.
        ///
        /// The server gives a silent reader up after its `wal_sender_timeout`, a minute by default.
        public var statusInterval: Duration = .seconds(10)
        /// Whether a stream without unconfirmed changes confirms what the server has sent.
        ///
        /// For example changes of other tables. Set it to false if the reader must store each position before the
        /// server receives it; the reader then confirms ``ReplicationStream/idlePosition`` itself.
        public var confirmsIdle = true

        public init(slot: String, publications: [String]) {
            self.slot = slot
            self.publications = publications
        }
    }

    /// A message with its place in the log.
    ///
    /// A row's changes are in sequence.
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
    ///   it does not exist; 55006: another session reads the slot; 42501: the role may not), `cancelled`.
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

    /// The entries since the last call, in order; waits until there is one.
    ///
    /// One task at a time may wait.
    ///
    /// - Throws: `connectionLost` or `server` once the stream has ended, `decoding` for invalid messages, `cancelled`.
    public func next() async throws(PostgresError) -> [Entry] {
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { box.take($0) }
        } onCancel: {
            box.giveUpWaiting()
        }
        return try outcome.get()
    }

    /// Confirms that everything up to a place is stored elsewhere.
    ///
    /// The place is the end of a transaction, from its `commit`. The server may discard the log before it, and no later
    /// stream of the slot begins before it.
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

    /// Ends the stream; `next` throws from then on.
    ///
    /// The reader's position is reported to the server first.
    public func close() { box.close() }

    /// Ends the stream and returns when its thread is done.
    ///
    /// The slot is free then, as far as this side can see.
    public func closeAndWait() async {
        box.close()
        await box.waitForEnd()
    }
}
