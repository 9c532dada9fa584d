package import Logging
import ServiceLifecycle
package import SyncModel
import Synchronization

/// Keeps the keys of a ``TokenVerifier`` fresh.
///
/// The service fetches the keys that providers publish, and checks whether files of keys and issuers have changed. If a
/// fetch or a check fails, the previous keys stay in force.
package final class JWKSRefresher: Service, Sendable {
    /// Reads all issuers again, including their files.
    package typealias Load = @Sendable () throws -> TokenConfiguration

    /// The interval at which files are read, in seconds.
    ///
    /// The files are small, and reading them is more reliable than comparing their modification times.
    static let filePause: Double = 5
    /// The interval at which the service checks for due fetches and files.
    private static let tick: Duration = .seconds(1)

    private struct Files {
        var readAt: Timestamp
        /// The last logged error, so that each error is logged once.
        var lastError: String?
    }

    private let verifier: TokenVerifier
    private let fetch: KeySetAnswer.Fetch
    private let load: Load?
    private let now: TimeSource
    private let logger: Logger
    private let files: Mutex<Files>

    /// - Parameter load: reads the issuers; nil if there are no files.
    package init(
        verifier: TokenVerifier,
        fetch: @escaping KeySetAnswer.Fetch,
        load: Load? = nil,
        now: @escaping TimeSource,
        logger: Logger
    ) {
        self.verifier = verifier
        self.fetch = fetch
        self.load = load
        self.now = now
        self.logger = logger
        files = Mutex(Files(readAt: now()))
    }

    /// Whether a file of keys or issuers is invalid, so that the previous configuration is in force.
    package var isFileBroken: Bool { files.withLock { $0.lastError != nil } }

    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { try? await gracefulShutdown() }
            group.addTask { await self.runTimerLoop() }
            group.addTask { await self.runRefreshLoop() }
            await group.next()
            group.cancelAll()
        }
    }

    private func runTimerLoop() async {
        while !Task.isCancelled {
            verifier.findWork()
            try? await Task.sleep(for: Self.tick)
        }
    }

    private func runRefreshLoop() async {
        await withDiscardingTaskGroup { group in
            for await _ in verifier.wakes {
                await readFiles()
                let now = now()
                for remote in verifier.remotes {
                    guard let start = remote.begin(at: now) else { continue }
                    group.addTask { await self.refresh(remote, start) }
                }
            }
            group.cancelAll()
        }
    }

    // MARK: - URLs

    private func refresh(_ remote: JWKSCache, _ start: JWKSCache.Start) async {
        let answer = await fetch(remote.url, start.etag)
        let result = await remote.finish(answer, at: now())
        verifier.count(result.outcome)
        if result.outcome == .changed { verifier.takeKeys(of: remote) }
        remote.release()
        report(result, of: remote)
    }

    private func report(_ result: JWKSCache.Result, of remote: JWKSCache) {
        let url = Logger.MetadataValue.string(KeySetURL.shown(remote.url))
        if let reason = result.reason {
            logger.log(
                level: result.isToBeWarnedOf ? .warning : .debug,
                "Token keys could not be fetched; the cached keys stay in use",
                metadata: ["url": url, "reason": "\(reason)"]
            )
        }
        for key in result.skipped {
            logger.log(
                level: key.isSecret ? .warning : .debug,
                "A published key is not used",
                metadata: ["url": url, "position": "\(key.position)", "reason": "\(key.reason)"]
            )
        }
        if result.outcome == .changed, result.count == 0 {
            logger.warning(
                "A provider no longer publishes a usable key; all its tokens are rejected",
                metadata: ["url": url]
            )
        } else if result.outcome == .changed {
            logger.info("Token keys were fetched", metadata: ["url": url, "count": "\(result.count)"])
        }
    }

    // MARK: - Files

    private func readFiles() async {
        let now = now()
        let isDue = files.withLock { files in
            // a time in the future was recorded before the clock was set back
            guard files.readAt > now || files.readAt.adding(seconds: Self.filePause) <= now else { return false }
            files.readAt = now
            return true
        }
        guard isDue, let load else { return }
        do {
            let read = try load()
            if read != verifier.configuration {
                try await verifier.replace(read)
                logger.notice("Changed files of keys or issuers were loaded")
            }
            files.withLock { $0.lastError = nil }
        } catch {
            let lastError = "\(error)"
            let isNew = files.withLock { files in
                defer { files.lastError = lastError }
                return files.lastError != lastError
            }
            guard isNew else { return }
            logger.error(
                "Changed files of keys or issuers are invalid; the previous ones stay in use",
                metadata: ["error": "\(lastError)"]
            )
        }
    }
}

extension JWKSRefresher: CustomStringConvertible {
    /// A short description for logs of services, because the members contain secrets.
    package var description: String { "JWKSRefresher" }
}
