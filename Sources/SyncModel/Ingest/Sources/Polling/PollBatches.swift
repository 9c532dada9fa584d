/// The batches in which a page's events are handed in.
public enum PollBatches {
    /// What an event takes beside its document, about.
    private static let frame = 256

    /// Ranges of entries, each within the limits of a batch; an event alone may be as large as it is.
    public static func ranges(of entries: [IngestRequest.Entry], limits: IntakeLimits) -> [Range<Int>] {
        var ranges: [Range<Int>] = []
        var (start, bytes) = (0, 0)
        for (index, entry) in entries.enumerated() {
            let size = size(of: entry)
            if index > start, index - start >= limits.mutations || bytes + size > limits.bodyBytes {
                ranges.append(start..<index)
                (start, bytes) = (index, 0)
            }
            bytes += size
        }
        if start < entries.count { ranges.append(start..<entries.count) }
        return ranges
    }

    public static func bytes(of entries: [IngestRequest.Entry]) -> Int { entries.reduce(0) { $0 + size(of: $1) } }

    private static func size(of entry: IngestRequest.Entry) -> Int {
        frame + ((try? entry.event.get())?.document?.count ?? 0)
    }
}
