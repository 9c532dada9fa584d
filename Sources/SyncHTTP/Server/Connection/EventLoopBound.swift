import HummingbirdCore
import Logging
import NIOCore

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
