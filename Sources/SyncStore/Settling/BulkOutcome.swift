/// The result of a bulk call.
package struct BulkOutcome: Sendable {
    /// Mutations that matched the request at the search.
    package var matched = 0
    /// Mutations that were settled.
    ///
    /// Fewer than matched where some could not be, more where dependants were discarded too.
    package var settled = 0
}
