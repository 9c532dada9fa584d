import SyncModel
import SyncStore

/// One listener: reads what happened behind its cursor, writes it, and waits for more. Holds one page at most.
struct EventStream {
    let events: EventReader
    let lane: LaneKey
    let interest: FeedInterest
    var cursor: EventCursor
    var output: EventOutput
    let keepAlive: Duration
    let end: ContinuousClock.Instant
    /// Whether the caller may still be served.
    let isServed: @Sendable () async throws -> Bool

    /// How long a listener to a lane that works through many mutations rests between two looks.
    private static let breath: Duration = .milliseconds(50)

    /// Why a stream ended, for metrics.
    enum End: String {
        /// The client went away, or the server shuts down.
        case closed
        /// Its time was over, or its token's.
        case expired
        /// The caller is not served any more.
        case refused
        /// The client did not read what was written.
        case slow
        /// The database was away, or was restored.
        case failed
    }

    /// Runs until the client goes away or something else ends it.
    mutating func run(_ watch: Watch) async -> End {
        do {
            try await output.write(EventFrame.opening(cursor))
            // what the feed has behind a cursor that was resumed from
            var news = Watch.News()
            news.lane = true
            news.feed = try await events.feedNews(after: cursor, for: interest)
            var lastWrite = ContinuousClock.now
            while !watch.isEnded {
                if try await write(news) { lastWrite = .now }
                if .now >= end { return .expired }
                if watch.isEnded || Task.isCancelled { break }
                if .now - lastWrite >= keepAlive {
                    guard try await isServed() else { return .refused }
                    try await output.write(EventFrame.keepAlive)
                    lastWrite = .now
                }
                if news.lane { try await Task.sleep(for: Self.breath) }
                news = await watch.news(within: min(end - .now, keepAlive - (.now - lastWrite)))
            }
            return .closed
        } catch is EventOutput.IsSlow {
            return .slow
        } catch is Problem {
            return .failed
        } catch {
            return .closed
        }
    }

    /// Writes what there is; answers whether that was anything.
    private mutating func write(_ news: Watch.News) async throws -> Bool {
        var hasWritten = false
        var hasMore = news.lane
        while hasMore {
            let page = try await events.page(after: cursor, of: lane)
            hasMore = page.hasMore
            cursor = page.next
            guard !page.events.isEmpty else { continue }
            try await output.write(page.events.flatMap { EventFrame.event($0) })
            hasWritten = true
        }
        if let feed = news.feed, feed > cursor.feed {
            cursor.feed = feed
            try await output.write(EventFrame.changes(cursor))
            hasWritten = true
        }
        return hasWritten
    }
}
