/// Signals within this process, for one listener.
///
/// Signals coalesce until the listener receives one.
package final class CoalescedSignal: Sendable {
    private let stream = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))

    package init() {}

    package var signals: AsyncStream<Void> { stream.stream }

    package func send() { stream.continuation.yield() }
}
