import Synchronization

extension Pool {
    /// Lets an event change the state, and carries out its effects.
    func apply(_ event: (inout State, ContinuousClock.Instant) -> State.Effects) {
        let now = ContinuousClock.now
        let (effects, timer, closers) = shell.withLock { shell in
            let effects = event(&shell.state, now)
            var timer: ContinuousClock.Instant?
            if let next = shell.state.nextTick(after: now), shell.timerAt.map({ next < $0 }) ?? true {
                shell.timerAt = next
                timer = next
            }
            guard shell.state.isDrained else { return (effects, timer, [] as [CheckedContinuation<Void, Never>]) }
            defer { shell.closers = [] }
            return (effects, timer, shell.closers)
        }
        for (waiter, answer) in effects.answers {
            switch answer {
            case .lend(let connection, let idleSince): waiter.resume(returning: .success((connection, idleSince)))
            case .refuse(let error): waiter.resume(returning: .failure(error))
            }
        }
        for _ in 0..<effects.connects { startConnecting() }
        for connection in effects.discards {
            Task { await discard(connection) }
        }
        if let timer {
            Task { [weak self] in
                try? await Task.sleep(until: timer, clock: .continuous)
                self?.timerFired(timer)
            }
        }
        for closer in closers { closer.resume() }
    }

    private func timerFired(_ at: ContinuousClock.Instant) {
        let isCurrent = shell.withLock { shell in
            guard shell.timerAt == at else { return false }
            shell.timerAt = nil
            return true
        }
        if isCurrent { apply { state, now in state.tick(at: now) } }
    }

    private func startConnecting() {
        let id = shell.withLock { shell in
            shell.lastID += 1
            shell.attempts[shell.lastID] = .some(nil)
            return shell.lastID
        }
        let attempt = Task { await connect(attempt: id) }
        let isClosed = shell.withLock { shell in
            if shell.attempts.keys.contains(id) { shell.attempts[id] = attempt }
            return shell.state.isClosed
        }
        if isClosed { attempt.cancel() }
    }

    private func connect(attempt id: UInt64) async {
        let outcome: Result<Connection, PostgresError>
        do throws(PostgresError) {
            outcome = .success(try await Connection.open(configuration))
        } catch {
            outcome = .failure(error)
        }
        shell.withLock { _ = $0.attempts.removeValue(forKey: id) }
        apply { state, now in
            switch outcome {
            case .success(let connection): state.connected(connection, at: now)
            case .failure(let error): state.connectFailed(error, at: now, jitter: .random(in: 0...1))
            }
        }
    }
}
