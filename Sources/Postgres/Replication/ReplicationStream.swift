import Synchronization

/// What other sessions of a server commit, as a logical replication slot and `pgoutput` tell it.
///
/// A thread of its own reads ahead as far as its memory allows, and tells the server how far the reader has come: the
/// server keeps its log from there. After a connection is lost, a new stream begins behind what was confirmed, so a
/// reader meets again what it had taken and not confirmed.
public final class ReplicationStream: Sendable {
    /// What to read.
    public struct Source: Sendable {
        /// The slot, made for `pgoutput`. One stream at a time reads it: the server refuses a second one (55006).
        public var slot: String
        public var publications: [String]
        /// How many bytes of messages are read ahead; a message that is larger than all of that is read alone.
        public var maximumBytesAhead = 4 << 20
        /// How large a message may be, in bytes, as far as the system tells what has come of one: a server that sends more
        /// is left.
        public var maximumMessageBytes = 64 << 20
        /// How often the server is told how far the reader is, in any case. The server gives a silent reader up after
        /// its `wal_sender_timeout`, a minute by default.
        public var statusInterval: Duration = .seconds(10)
        /// Whether a stream without unconfirmed changes confirms what the server has sent, such as changes of other
        /// tables. Set it to false if the reader must store each position before the server receives it; the reader
        /// then confirms ``ReplicationStream/idlePosition`` itself.
        public var confirmsIdle = true

        public init(slot: String, publications: [String]) {
            self.slot = slot
            self.publications = publications
        }
    }

    /// A message with the place in the log where it stands: a row's changes stand one behind the other.
    public struct Entry: Sendable, Hashable {
        public let position: LogPosition
        public let message: ReplicationMessage
    }

    let box: ReplicationBox

    private init(_ box: ReplicationBox) { self.box = box }

    deinit { box.close() }

    /// Connects, and begins where the slot stands.
    ///
    /// - Throws: `unavailable` where no connection can be made, `server` where the slot or a publication is refused
    ///   (42704: there is none; 55006: somebody else reads the slot; 42501: the role may not), `cancelled`.
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

    /// What has come since the last call, in order; waits until something has. One task at a time may wait.
    ///
    /// - Throws: `connectionLost` or `server` once the stream has ended, `decoding` for messages that are none,
    ///   `cancelled`.
    public func next() async throws(PostgresError) -> [Entry] {
        let outcome = await withTaskCancellationHandler {
            await withCheckedContinuation { box.take($0) }
        } onCancel: {
            box.giveUpWaiting()
        }
        return try outcome.get()
    }

    /// Notes that everything up to a place is kept elsewhere: the end of a transaction, as its `commit` tells it. The
    /// server may forget it, and no later stream of the slot begins before it.
    public func confirm(_ position: LogPosition) { box.confirm(position) }

    /// The position up to which the server has sent its log, if the reader has confirmed every change before it.
    /// Nil while changes wait or are unconfirmed.
    public var idlePosition: IdlePosition? { box.idlePosition }

    /// A position that a reader without unconfirmed changes may confirm.
    public struct IdlePosition: Sendable, Hashable {
        public let position: LogPosition
        /// Whether the server requested a status message since the last confirmation. A server that shuts down waits
        /// for the confirmation of everything that it has sent.
        public let isRequested: Bool
    }

    /// Ends the stream; `next` throws from then on. The server is told first how far the reader came.
    public func close() { box.close() }

    /// Ends the stream and returns when its thread is done: the slot is free then, as far as this side knows.
    public func closeAndWait() async {
        box.close()
        await box.waitForEnd()
    }
}
