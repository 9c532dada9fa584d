/// Follows the results of one pipeline.
///
/// It tracks the statement that each result belongs to, the first failure, and the end.
///
/// libpq answers each command with a result (or PIPELINE_ABORTED, after an error) and then with nothing, and the Sync
/// with PIPELINE_SYNC alone. Pure: it sees outcomes, not results.
struct PipelineProgress {
    /// A command that was sent.
    enum Step: Equatable {
        case prepare(Int)
        case execute(Int)

        var statement: Int {
            switch self {
            case .prepare(let index), .execute(let index): index
            }
        }
    }

    enum Outcome {
        case success
        case failure
        case aborted
        /// The end of a command's results.
        case end
        case sync
        /// A result that no pipeline can have, such as COPY's.
        case unexpected
    }

    enum Action: Equatable {
        case ignore
        /// The statement at this index is now prepared.
        case prepared(Int)
        /// The outcome is the result of the statement at this index.
        case keep(Int)
        /// The first failure, of the statement at this index.
        case fail(Int)
        case finish
        /// The connection is out of step and can't be used further.
        case abandon
    }

    private let steps: [Step]
    private var current = 0
    private var isAnswered = false
    /// The statement whose result was the last to arrive.
    private(set) var latest: Int?
    private var hasFailed = false

    init(_ steps: [Step]) {
        self.steps = steps
    }

    mutating func received(_ outcome: Outcome) -> Action {
        switch outcome {
        case .sync:
            return current == steps.count ? .finish : .abandon
        case .end:
            // One may come before the first result; it ends nothing.
            if isAnswered { current += 1 }
            isAnswered = false
            return .ignore
        case .unexpected:
            return .abandon
        case .success, .failure, .aborted:
            guard current < steps.count else { return .abandon }
            isAnswered = true
            latest = steps[current].statement
            return outcome == .aborted ? .ignore : outcome == .failure ? failure() : success()
        }
    }

    private func success() -> Action {
        switch steps[current] {
        case .prepare(let index): .prepared(index)
        case .execute(let index): .keep(index)
        }
    }

    private mutating func failure() -> Action {
        defer { hasFailed = true }
        return hasFailed ? .ignore : .fail(steps[current].statement)
    }
}
