/// Signals within this process, for one listener.
///
/// Signals coalesce until the listener receives one.
package final class CoalescedSignal: Sendable {
    private let stream = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    package init() {}

    package var rings: AsyncStream<Void> { stream.stream }

    package func ring() { stream.continuation.yield() }
}
