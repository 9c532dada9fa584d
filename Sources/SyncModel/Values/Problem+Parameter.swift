extension Problem {
    /// `invalid_request` for a parameter that says nothing that is known here.
    public static func invalidParameter(_ detail: String, pointer: String = "") -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: "parameter_invalid", detail)
    }
}
