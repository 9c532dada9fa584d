/// Why a stream of events ended, for metrics.
enum EventStreamEnd: String, Sendable, CaseIterable {
    /// The client went away, or the server shuts down.
    case closed
    /// Its time was over, or its token's.
    case expired
    /// The caller is not served any more.
    case refused
    /// The client did not read what was written.
    case slow
    /// Its user has opened so many more that the oldest had to go.
    case superseded
    /// The organization's data were purged or restored.
    case failed
}
