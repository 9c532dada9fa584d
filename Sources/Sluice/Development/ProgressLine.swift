import CommandSupport

/// A step that takes a moment: its line begins before it and ends after it.
struct ProgressLine {
    private let started = ContinuousClock.now

    init(_ what: String) {
        Terminal.output("  \(what) …", terminator: "")
    }

    func done() {
        let tenths = (ContinuousClock.now - started) / .milliseconds(100)
        Terminal.output(" \(Int(tenths) / 10).\(Int(tenths) % 10) s")
    }

    /// A step that ends with `body`, or not at all.
    static func during<Value>(_ what: String, _ body: () async throws -> Value) async throws -> Value {
        let line = ProgressLine(what)
        do {
            let value = try await body()
            line.done()
            return value
        } catch {
            Terminal.output("")
            throw error
        }
    }
}
