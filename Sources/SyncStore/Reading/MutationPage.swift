/// A page of a list of mutations.
package struct MutationPage: Sendable {
    package let mutations: [MutationDetail]
    /// The cursor of the next page; nil on the last.
    package let next: String?
}
