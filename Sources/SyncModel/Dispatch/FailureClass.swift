/// Why a mutation waits for a person, as a key for groups in operators' lists.
///
/// Stored separately from the problem, which may be sealed.
public struct FailureClass: Sendable, Hashable {
    /// The problem's code; `conflict` exactly where that is the status.
    @Exact public private(set) var code: String
    /// The HTTP status of the response because of which it waits; 0 without a response.
    public let status: Int16

    /// Nil for a mutation that does not wait for a person.
    ///
    /// - Parameters:
    ///   - error: the problem, JSON.
    ///   - responseStatus: the status of the last response; nil if there was no response.
    public init?(of status: MutationStatus, error: [UInt8]?, responseStatus: Int16?) {
        guard status.isForAPerson else { return nil }
        let conflict = ProblemCode.conflict.rawValue
        let known = error.flatMap { StoredProblem($0).code }
        let other = known == conflict ? nil : known
        code = status == .conflict ? conflict : other ?? ProblemCode.upstreamRejected.rawValue
        self.status = responseStatus ?? 0
    }
}
