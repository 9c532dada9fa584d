public import JSONText

extension Problem {
    /// What a caller is told about a body that is JSON, but can't be kept or would be understood in one of several ways.
    public init(_ defect: JSONDefect) {
        let rule = defect.kind == .duplicateMember ? Rule.duplicateMember : Rule.memberType
        self.init(.invalidRequest, pointer: defect.pointer, rule: rule, defect.explanation)
    }
}
