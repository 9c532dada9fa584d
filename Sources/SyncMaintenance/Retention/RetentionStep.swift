/// What a step of retention came to.
package struct RetentionStep: Sendable, Hashable {
    package var looked = 0
    /// Rows that were changed or went, or would have.
    package var changed = 0
    /// Rows that were left to the next run, since something was in the way.
    package var left = 0
    /// Where the next step begins; nil at the end.
    package var next: RetentionPlace?
}
