/// An identity provider's answer to a request for its keys.
public enum KeySetAnswer: Sendable, Hashable {
    /// A document, with the `ETag` and `Cache-Control` that came with it.
    case document([UInt8], etag: String?, cacheControl: String?)
    /// The document that was fetched before is still valid (304).
    case unchanged(cacheControl: String?)
    /// No document, for a reason in a few words without secrets.
    case failed(String)

    /// Fetches a key set; `etag` is that of the cached document. Ends within seconds.
    public typealias Fetch = @Sendable (_ url: String, _ etag: String?) async -> KeySetAnswer
}
