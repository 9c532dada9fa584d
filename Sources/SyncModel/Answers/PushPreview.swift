/// The answer to a preview.
///
/// It has the results that a push would have, and the requests that it would send.
public struct PushPreview: Sendable {
    /// The result that one entry would have.
    public struct Result: Sendable {
        public let entry: PushEntry
        /// The immediate verdict, without the ids that only a push makes.
        public let verdict: PushVerdict
        /// The request that would be sent; nil without a request.
        ///
        /// Also nil for an entry that is not new.
        public let request: PreviewedRequest?
        /// The conflict that the mutation's turn would meet before anything is sent.
        ///
        /// A problem object as JSON.
        public let conflict: [UInt8]?
        public let warning: PushWarning?
    }

    /// The device's watermark after the push.
    public let acceptedSequence: Int64
    /// In request order.
    public let results: [Result]
    /// Resolved mappings of this user that the batch touches.
    public let mappings: [IDMapping]
}
