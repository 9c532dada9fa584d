/// The result of a step.
package struct RetentionStep: Sendable, Hashable {
    package var scanned = 0
    /// Rows that were changed or deleted, or would have been.
    package var changed = 0
    /// Rows that were left to the next run because an obstacle was in the way.
    package var left = 0
    /// Where the next step begins; nil at the end.
    package var next: RetentionPosition?
}
