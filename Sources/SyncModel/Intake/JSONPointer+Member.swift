import JSONText

extension JSONPointer {
    /// The pointer to one member of the current value, escaped: `/name`.
    package static func member(_ name: String) -> String {
        JSONPointer().appending(member: name).text
    }
}
