import FoundationEssentials
import JSONText
import Logging
import ServiceLifecycle
import SyncModel
import SyncStore

/// Ends the back-offs of organizations whose upstream settings were changed by an operator.
///
/// A pass reads all lanes of an organization, and there can be many. Therefore the change is stored first, and the
/// operator's request does not wait for the pass. Failed passes are repeated. If a gateway stops before it completes a
/// pass, the search of another gateway finds the change.
final class BackoffEnder: Service {
    /// The seconds between two attempts to complete all passes.
    private static let interval = 5.0
    /// The number of attempts between two searches.
    private static let triesPerSearch = 12

    private let administration: Administration
    private let logger: Logger

    init(_ administration: Administration, logger: Logger) {
        (self.administration, self.logger) = (administration, logger)
    }

    func run() async throws {
        let signal = administration.backOffRequests.signal
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.keepSearching() }
                for await _ in signal.signals { await self.makePasses() }
                group.cancelAll()
            }
        }
    }

    private func keepSearching() async {
        var known: [UUID: Timestamp] = [:]
        var tries = 0
        while !Task.isCancelled {
            if tries.isMultiple(of: Self.triesPerSearch) { await search(&known) }
            tries += 1
            administration.backOffRequests.signal.send()
            // randomizes the interval, so that replicas that were started together search at different times
            try? await Task.sleep(for: .seconds(Self.interval * Double.random(in: 0.8...1.2)))
        }
    }

    /// Adds passes for the changes that the last search did not find.
    private func search(_ known: inout [UUID: Timestamp]) async {
        do throws(Problem) {
            let passes = try await administration.recentBackoffPasses()
            for pass in passes where known[pass.organization] != pass.changedAt {
                administration.backOffRequests.add(pass)
            }
            known = Dictionary(passes.map { ($0.organization, $0.changedAt) }) { $1 }
        } catch {
            logger.debug("Changed upstreams were not found", metadata: ["reason": "\(error.detail)"])
        }
    }

    /// Runs the requested passes. They take turns page by page, so that a long pass does not delay other organizations.
    ///
    /// A failed pass continues at the next attempt.
    func makePasses() async {
        let requests = administration.backOffRequests
        var failed: Set<UUID> = []
        while !Task.isCancelled {
            let passes = requests.pending.filter { !failed.contains($0.organization) }
            if passes.isEmpty { return }
            for var pass in passes where !Task.isCancelled {
                do throws(Problem) {
                    try await administration.advance(&pass)
                } catch {
                    failed.insert(pass.organization)
                    logger.notice(
                        "Back-offs were not ended; this is tried again",
                        metadata: [
                            "organization": "\(pass.organization.lowercased)", "reason": "\(error.detail)",
                        ]
                    )
                }
                requests.update(pass)
            }
        }
    }
}
