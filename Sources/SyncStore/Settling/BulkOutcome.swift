/// What a bulk call came to.
package struct BulkOutcome: Sendable {
    /// Mutations that fitted the request when they were looked for.
    package var matched = 0
    /// Mutations that were settled. Fewer than matched where some did not allow it, more where dependants went too.
    package var settled = 0
}
