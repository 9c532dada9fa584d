extension PushValidator {
    /// The problem that refuses a strict push (all or nothing).
    ///
    /// Nil when every entry is valid.
    func strictProblem() -> Problem? {
        let problems = verdicts.enumerated().compactMap { index, verdict -> [ProblemDetail]? in
            switch verdict {
            case nil, .accepted, .replayed: nil
            case .rejected(let problem):
                problem.errors.isEmpty
                    ? [
                        ProblemDetail(
                            pointer: "/mutations/\(index)",
                            rule: problem.code.rawValue,
                            detail: problem.detail
                        )
                    ]
                    : problem.errors
            case .rejectedBefore:
                [
                    ProblemDetail(
                        pointer: "/mutations/\(index)",
                        rule: "rejected_before",
                        detail: "this entry was rejected before; correct it and send it with a new sequence number"
                    )
                ]
            }
        }
        guard !problems.isEmpty else { return nil }
        var problem = Problem(
            .validationFailed,
            "\(problems.count) of the mutations are rejected, and handling=strict accepts all or none",
            errors: problems.flatMap { $0 }
        )
        for case .rejected(let refusal)? in verdicts { problem.omittedErrors += refusal.omittedErrors }
        return problem
    }
}

extension Problem {
    static func keyReused(index: Int) -> Problem {
        Problem(
            .idempotencyKeyReused,
            pointer: "/mutations/\(index)/idempotency_key",
            rule: "idempotency_key_unique_per_mutation",
            "this key was used with other content; a changed mutation needs a new key"
        )
    }

    /// A repetition in which more ids differ than are looked up for one push.
    ///
    /// It is not compared.
    static func tooManyToCompare(index: Int) -> Problem {
        let detail =
            "this key was used before, and the repeated entries of a push may contain \(ComparedIDs.limit) ids to "
            + "compare; send this one again in another push"
        return Problem(.validationFailed, pointer: "/mutations/\(index)", rule: Rule.range, detail)
    }

    static func sequenceUsed(index: Int, watermark: Int64) -> Problem {
        Problem(
            .sequenceAlreadyUsed,
            pointer: "/mutations/\(index)/sequence_number",
            rule: Rule.sequence,
            "numbers up to \(watermark) were used before; use a higher one"
        )
    }
}
