/// What a group has learnt from tries before this one.
package struct Certainty: Sendable {
    /// Whether keys, ids and watermarks are all to be looked up.
    package var looksUpAll = false
    /// Whether organizations' data keys were read again after a value under an unknown one was met: then it stays closed.
    package var hasNewestKeys = false
}
