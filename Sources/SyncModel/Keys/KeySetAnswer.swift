/// What an identity provider answers when it is asked for its keys.
public enum KeySetAnswer: Sendable, Hashable {
    /// A document, with the `ETag` and `Cache-Control` that came with it.
    case document([UInt8], etag: String?, cacheControl: String?)
    /// What was fetched before is still so (304).
    case unchanged(cacheControl: String?)
    /// No document, for a reason in a few words that hold nothing secret.
    case failed(String)

    /// Fetches a key set; `etag` is that of the document that is at hand. Ends by itself within seconds.
    public typealias Fetch = @Sendable (_ url: String, _ etag: String?) async -> KeySetAnswer
}
