extension ConnectionDriver {
    /// Runs a text of several statements with the simple protocol.
    ///
    /// Pipeline mode does not allow that protocol.
    func script(_ text: String, _ limits: Limits) -> (outcome: Job.Outcome, isAlive: Bool) {
        // libpq takes a C string, which would end there.
        if text.utf8.contains(0) {
            return (.failure(PostgresError(.server(sqlState: "22021"), "the script holds U+0000")), true)
        }
        guard handle.exitPipeline(), handle.send(script: text) else {
            return (.failure(PostgresError(.connectionLost, handle.message)), false)
        }
        var failure: PostgresError?
        let (end, interruption) = exchange(limits) { drain(failure: &failure) }
        switch end {
        case .done:
            guard handle.enterPipeline() else {
                return (.failure(PostgresError(.connectionLost, handle.message)), false)
            }
            return (failure.map { .failure($0.interpreted(interruption)) } ?? .success([]), true)
        case .broken, .unresponsive:
            let error = failure ?? PostgresError(interruption.ofNoAnswer ?? .connectionLost, handle.message)
            return (.failure(error), false)
        }
    }

    private func drain(failure: inout PostgresError?) -> Drained {
        while !handle.isBusy {
            guard let result = handle.nextResult() else { return handle.hasFailed ? .broken : .done }
            switch result.outcome {
            case .success: break
            case .failure: if failure == nil { failure = result.error(statement: nil, index: nil) }
            case .aborted, .end, .sync, .unexpected: return .broken
            }
        }
        return handle.hasFailed ? .broken : .pending
    }
}
