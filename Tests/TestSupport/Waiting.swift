/// The limits of waiting for a condition in tests.
package enum Waiting {
    /// The limit of a wait. It ends tests that hang and bounds nothing else: a machine with ten other tasks is a
    /// hundred times slower than an idle machine, and a failure on it is no evidence about the product.
    package static let limit: Duration = .seconds(300)

    /// The condition for which a test waited did not become true.
    package struct InVain: Error, CustomStringConvertible {
        /// The description of the condition.
        package let description: String

        /// Describes the condition.
        package init(_ what: String) {
            description = "it never came to this: \(what)"
        }
    }
}

/// Waits until a condition holds, polling repeatedly.
///
/// Polls use processor time that other tests need, so the interval grows slowly, up to tenfold.
///
/// - Parameters:
///   - what: a description of the condition, for readers.
///   - pause: the first interval between two polls.
/// - Throws: ``Waiting/InVain`` if the condition does not become true.
package nonisolated(nonsending) func waitUntil(
    _ what: @autoclosure () -> String,
    every pause: Duration = .milliseconds(5),
    _ holds: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + Waiting.limit
    var next = pause
    while try await !holds() {
        guard .now < deadline else { throw Waiting.InVain(what()) }
        try await Task.sleep(for: next)
        next = min(next * 1.05, pause * 10)
    }
}
