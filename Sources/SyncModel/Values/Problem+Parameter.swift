extension Problem {
    /// `invalid_request` for an invalid parameter.
    public static func invalidParameter(_ detail: String, pointer: String = "") -> Problem {
        Problem(.invalidRequest, pointer: pointer, rule: "parameter_invalid", detail)
    }
}
