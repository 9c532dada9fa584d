import JSONText

/// The result of one check.
package struct Diagnosis: Sendable {
    package enum Status: String, Sendable {
        case ok
        /// The object works, but the operator should check it.
        case warning
        /// The object does not work.
        case failed
    }

    package let subject: String
    package let status: Status
    package let finding: String
    /// The remedy; nil if no action is needed.
    package let advice: String?

    package static func ok(_ subject: String, _ finding: String) -> Diagnosis {
        Diagnosis(subject: subject, status: .ok, finding: finding, advice: nil)
    }

    package static func warning(_ subject: String, _ finding: String, _ advice: String) -> Diagnosis {
        Diagnosis(subject: subject, status: .warning, finding: finding, advice: advice)
    }

    package static func failed(_ subject: String, _ finding: String, _ advice: String) -> Diagnosis {
        Diagnosis(subject: subject, status: .failed, finding: finding, advice: advice)
    }
}

extension Diagnosis {
    /// The text for a person: a line with the finding, and a second line if there is advice.
    package var text: String {
        let padding = String(repeating: " ", count: max(1, 9 - status.rawValue.count))
        let line = "\(status.rawValue)\(padding)\(subject): \(finding)"
        return advice.map { line + "\n         → \($0)" } ?? line
    }

    /// `{"ok":…,"checks":[{"subject","status","finding","advice"}]}`.
    package static func json(_ diagnoses: [Diagnosis]) -> String {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("ok", !diagnoses.contains { $0.status == .failed })
        writer.name("checks")
        writer.beginArray()
        for diagnosis in diagnoses {
            writer.beginObject()
            writer.member("subject", diagnosis.subject)
            writer.member("status", diagnosis.status.rawValue)
            writer.member("finding", diagnosis.finding)
            writer.member("advice", diagnosis.advice)
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
