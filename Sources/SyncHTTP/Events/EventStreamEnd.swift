/// Why a stream of events ended, for metrics.
enum EventStreamEnd: String, Sendable, CaseIterable {
    /// The client disconnected, or the server shuts down.
    case closed
    /// Its maximum age was reached, or its token expired.
    case expired
    /// The caller is not served any more.
    case refused
    /// The client did not read the data.
    case slow
    /// Its user opened so many newer ones that the oldest was closed.
    case superseded
    /// The organization's data were purged or restored.
    case failed
}
