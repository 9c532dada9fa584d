/// How long tests wait for what must come about.
package enum Waiting {
    /// When a wait is given up. It ends what hangs and bounds nothing else: a machine that does ten other things is a
    /// hundred times slower than one that does none, and a test that fails there tells nothing of the product.
    package static let limit: Duration = .seconds(300)

    /// What a test waited for did not come about.
    package struct InVain: Error, CustomStringConvertible {
        /// What it waited for.
        package let description: String

        /// Says what was waited for.
        package init(_ what: String) {
            description = "it never came to this: \(what)"
        }
    }
}

/// Waits until something holds, looking again and again.
///
/// - Parameters:
///   - what: what is waited for, for people.
///   - pause: how long not to look.
/// - Throws: ``Waiting/InVain`` where it does not come to that.
package nonisolated(nonsending) func waitUntil(
    _ what: @autoclosure () -> String,
    every pause: Duration = .milliseconds(5),
    _ holds: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + Waiting.limit
    while try await !holds() {
        guard .now < deadline else { throw Waiting.InVain(what()) }
        try await Task.sleep(for: pause)
    }
}
