/// What is wrong with what was typed, for the person who typed it.
struct Complaint: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
