/// Bounds on the work of a batch of events.
///
/// An event has a few bytes while the entity that it changes may have a megabyte, so a batch's body does not show how
/// much work it is. Work is counted in bytes: documents that are read, merged or compared, and the events' own.
public enum IngestBounds {
    /// The work of a batch that is committed together with others.
    ///
    /// A larger batch is committed alone, by a separate worker.
    public static let light = 524_288
    /// The work of one transaction of a large batch.
    ///
    /// The rest of the batch waits for its organization's next turn.
    public static let part = 4_194_304
    /// The events that are read in one transaction of a large batch, after its first.
    public static let partEvents = 64
    /// Bytes of the stored documents that a batch changes. A batch beyond it is refused with `payload_too_large`:
    /// it would keep its caller waiting for longer than a client waits.
    public static let most = 67_108_864
    /// The least size of documents that are patched in memory.
    ///
    /// They are if a batch has several patches for one.
    static let folded = 4_096

    /// Why a batch is too much by itself, however often it is sent.
    public static func tooLarge(_ bytes: Int) -> Problem {
        Problem(
            .payloadTooLarge,
            "the documents that this batch changes have \(bytes) bytes; at most \(most) are allowed;"
                + " send its events in several batches"
        )
    }
}
