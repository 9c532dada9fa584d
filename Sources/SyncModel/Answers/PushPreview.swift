/// What a preview is answered with: what a push would come to, and what would be sent.
public struct PushPreview: Sendable {
    /// What would come of one entry.
    public struct Result: Sendable {
        /// What is answered.
        public let entry: PushEntry
        /// What would come of it at once. Ids that only a push makes are left out.
        public let verdict: PushVerdict
        /// What would be sent; nil where nothing would, and for what is not new.
        public let request: PreviewedRequest?
        /// What its turn would be in conflict with before anything is sent: a problem object as JSON.
        public let conflict: [UInt8]?
        /// What the client would be told besides; nil for nothing.
        public let warning: PushWarning?
    }

    /// The device's watermark afterwards.
    public let acceptedSequence: Int64
    /// In request order.
    public let results: [Result]
    /// Resolved mappings of this user that the batch touches, as they stand.
    public let mappings: [IDMapping]
}
