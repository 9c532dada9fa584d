import HummingbirdCore
import Logging
import NIOCore

/// Runs tasks on the thread of one event loop.
///
/// A connection's bytes are read and written on this thread. If the connection's task runs on the same thread, a
/// request is answered without a change of threads. Long work must run on another thread, because other connections
/// wait for this thread.
final class EventLoopExecutor: TaskExecutor {
    private let eventLoop: any EventLoop

    init(_ eventLoop: any EventLoop) {
        self.eventLoop = eventLoop
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        eventLoop.execute { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Handles each connection of a server on the connection's own event loop.
struct EventLoopBound<Base: ServerChildChannel>: ServerChildChannel {
    let base: Base
    /// Completes the pipeline of a new connection.
    let complete: @Sendable (ChannelPipeline) throws -> Void

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Base.Value> {
        base.setup(channel: channel, logger: logger).flatMapThrowing { value in
            try complete(channel.pipeline)
            return value
        }
    }

    func handle(value: Base.Value, logger: Logger) async {
        await withTaskExecutorPreference(EventLoopExecutor(value.channel.eventLoop)) {
            await base.handle(value: value, logger: logger)
        }
    }
}
