/// A bounded number of attempts, with pauses between them.
public struct Retry: Sendable {
    private let attempts: Int
    private let pause: @Sendable (_ failures: Int) -> Duration

    /// - Parameters:
    ///   - attempts: the maximum number of attempts. At least one attempt is made.
    ///   - pause: returns the time until the next attempt.
    public init(_ attempts: Int, pause: @escaping @Sendable (_ failures: Int) -> Duration = { _ in .zero }) {
        self.attempts = attempts
        self.pause = pause
    }

    /// Creates attempts with pauses of random length.
    public init(_ attempts: Int, milliseconds: ClosedRange<Int>) {
        self.init(attempts) { _ in .milliseconds(Int.random(in: milliseconds)) }
    }

    /// Runs `body` until it succeeds.
    ///
    /// Throws the error of the last attempt. If the task is cancelled, the pauses end immediately.
    ///
    /// - Parameter mayRetry: returns whether to try again after this error and this number of failures.
    public nonisolated(nonsending) func run<Value, Failure: Error>(
        while mayRetry: (_ error: Failure, _ failures: Int) -> Bool = { _, _ in true },
        _ body: nonisolated(nonsending) () async throws(Failure) -> Value
    ) async throws(Failure) -> Value {
        var failures = 0
        while true {
            do throws(Failure) {
                return try await body()
            } catch {
                failures += 1
                guard failures < attempts, mayRetry(error, failures) else { throw error }
            }
            try? await Task.sleep(for: pause(failures))
        }
    }
}
