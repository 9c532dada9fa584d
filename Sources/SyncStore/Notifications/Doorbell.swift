/// Signals within this process. For one listener; rings that it has not heard yet are one.
package final class Doorbell: Sendable {
    private let stream = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    package init() {}

    package var rings: AsyncStream<Void> { stream.stream }

    package func ring() { stream.continuation.yield() }
}
