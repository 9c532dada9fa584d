/// The result of a bulk call.
package struct BulkOutcome: Sendable {
    /// Mutations that matched the request when they were looked for.
    package var matched = 0
    /// Mutations that were settled: fewer than matched where some could not be, more where dependants were discarded
    /// too.
    package var settled = 0
}
