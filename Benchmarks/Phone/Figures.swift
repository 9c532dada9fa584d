/// The measured values, by name, with the unit in the name.
struct Figures {
    private var values: [(name: String, value: Double)] = []

    mutating func add(_ name: String, _ value: Double) { values.append((name, value)) }

    var json: String {
        let members = values.map { "\"\($0.name)\": \(($0.value * 1_000).rounded() / 1_000)" }
        return "{\(members.joined(separator: ", "))}"
    }
}

extension [Double] {
    /// - Precondition: the list is not empty.
    var median: Double {
        let sorted = sorted()
        return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2
    }
}
