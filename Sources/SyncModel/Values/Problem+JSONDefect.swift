public import JSONText

extension Problem {
    /// The problem of a body that is JSON, but cannot be stored or is ambiguous.
    public init(_ defect: JSONDefect) {
        let rule = defect.kind == .duplicateMember ? Rule.duplicateMember : Rule.memberType
        self.init(.invalidRequest, pointer: defect.pointer, rule: rule, defect.explanation)
    }
}
